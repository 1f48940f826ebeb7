"""The benchmark of parsing: its texts, and the figures that it reports and shows."""

from __future__ import annotations

import pytest

from whimbrel.cli.bench.group import figures_table
from whimbrel.cli.bench.output import show
from whimbrel.lab.measure import filter_parsing
from whimbrel.language.columnar.terms import parse_many


def test_the_texts_of_the_benchmark_are_columnar() -> None:
    for shapes in (300, 5_000):
        parsed = parse_many(filter_parsing.texts(5_000, shapes))
        assert not parsed.filters and not parsed.errors


def test_the_benchmark_reports_every_figure_with_its_spread(capsys: pytest.CaptureFixture[str]) -> None:
    figures = filter_parsing.run(count=500, repeats=1)
    assert [figure.unit for figure in figures] == ["texts/s"] * 3 + ["ms"] * 2
    for figure in figures:
        assert 0 < figure.lowest <= figure.median <= figure.highest
    show([figures_table(figures)])
    assert "import whimbrel" in capsys.readouterr().out
