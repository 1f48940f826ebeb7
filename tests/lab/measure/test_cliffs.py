"""`whimbrel bench cliffs`, small: every form is measured beside its neighbour."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from typer.testing import CliRunner

from whimbrel import Filter
from whimbrel.cli.main import app
from whimbrel.lab.measure import cliffs
from whimbrel.lab.measure.cliff_forms import LOAD_FORMS, MATCH_FORMS, LoadForm, MatchForm, SourceFields

TINY = cliffs.CliffSizes(subscriptions=40, loaded=20, events=10, repeat=1, seconds=0.001)


@pytest.mark.parametrize("forms", [LOAD_FORMS, MATCH_FORMS])
def test_forms_have_names_of_their_own_and_neighbours_that_exist(forms: tuple[LoadForm | MatchForm, ...]) -> None:
    names = [form.name for form in forms]
    assert len(set(names)) == len(names)
    assert {form.neighbour for form in forms} <= set(names)
    for form in forms:
        assert Filter.parse(form.filter.format_map(SourceFields(Random(form.name)))).is_satisfiable()


def test_forms_are_measured_in_every_way() -> None:
    result: Any = cliffs.run(TINY, ["CONTAINS ALL", "after 1 add"])
    assert {row["form"] for row in result["rows"] if row["kind"] == "loading"} == {"CONTAINS ALL", "NOT CONTAINS ALL"}
    matched = [row for row in result["rows"] if row["kind"] == "matching"]
    assert {row["events_as"] for row in matched} == set(cliffs.EVENT_FORMS)
    assert {row["form"] for row in matched} == {
        "CONTAINS ALL of 2",
        "CONTAINS ALL of 2, many",
        "CONTAINS ALL of 6",
        "after 1 add",
    }
    assert all(row["us"] > 0 and row["neighbour_us"] > 0 and row["ratio"] > 0 for row in result["rows"])
    assert result["verdicts"][0]["measured"] == sum(row["is_cliff"] for row in result["rows"])


def test_the_command_shows_tables_and_writes_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cliffs, "SMALL", TINY)
    done = CliRunner().invoke(app, ["bench", "cliffs", "--form", "tiny", "--output", str(tmp_path)])
    assert done.exit_code == 0, done
    assert "tiny ranges" in done.stdout and "above 4 x" in done.stdout and "matching: tiny ranges" in done.stderr
    assert json.loads((tmp_path / "cliffs.json").read_text())["sizes"]["subscriptions"] == 40
