from __future__ import annotations

import json

from whimbrel.lab.measure import parsing as bench_language
from whimbrel.language.columnar import parse_many


def test_the_texts_of_the_benchmark_are_columnar_and_have_the_shapes_they_should():
    parsed = parse_many(bench_language.texts(900, 300))
    assert len(parsed.groups) <= 300
    assert not parsed.filters and not parsed.errors
    assert len(parse_many(bench_language.texts(400, 400)).groups) == 400


def test_the_benchmark_reports_every_figure_with_its_spread(capsys):
    report = bench_language.run(count=500, repeats=1, json=True)
    assert json.loads(capsys.readouterr().out) == report
    assert [figure["unit"] for figure in report["figures"]] == ["texts/s"] * 3 + ["ms"] * 2
    for figure in report["figures"]:
        assert 0 < figure["lowest"] <= figure["median"] <= figure["highest"]
    bench_language._show(report["figures"])
    assert "import whimbrel" in capsys.readouterr().out
