"""`whimbrel bench forms`, small: every form of the same events is measured, and all have the same matches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from whimbrel.cli.main import app
from whimbrel.lab.measure.matching import form_costs

TINY = form_costs.FormSizes(subscriptions=40, many=40, events=30, alone=10, repeat=1)


def test_every_form_has_its_figure_on_every_workload() -> None:
    result: Any = form_costs.run(TINY)
    forms = {row["form"] for row in result["rows"]}
    assert forms >= {*form_costs.TARGETS, form_costs.ARROW, form_costs.COLUMN} and len(result["rows"]) == 3 * len(forms)
    assert all(row["us"] > 0 for row in result["rows"]) and len(result["verdicts"]) == 3 * len(form_costs.TARGETS)


def test_forms_that_do_not_agree_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form_costs, "_forms", lambda *given: {"one": (lambda: 1, 30), "two": (lambda: 2, 30)})
    with pytest.raises(form_costs.UnequalMatches, match="same matches"):
        form_costs.run(TINY, ["hm"])


def test_the_command_writes_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form_costs, "SMALL", TINY)
    done = CliRunner().invoke(app, ["bench", "forms", "--workload", "hm", "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "JSON lines" in done.output and "event-ruler (Java) 19.3, from JSON" in " ".join(done.output.split())
    assert {row["workload"] for row in json.loads((tmp_path / "forms.json").read_text())["rows"]} == {"hm"}
