"""`whimbrel bench live`, small: it measures, looks at what it did, and says what came of the targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from whimbrel import Index
from whimbrel.cli.main import app
from whimbrel.lab.measure import live_changes as live

TINY = live.LiveSizes(subscriptions=500, changes=60, missed=200, events=4, repeat=2, seconds=0.1)


def test_every_kind_of_call_is_measured() -> None:
    result: Any = live.run(TINY)
    called = {row["what"]: row for row in result["calls"]}
    assert [called[name]["calls"] for name in ("add", "replace", "remove", "near_misses", "explain")] == [60] * 3 + [
        4
    ] * 2
    assert {"match", "match of nothing", "match, 1,000 adds/s", "match of nothing, 1,000 adds/s"} <= called.keys()
    assert all(0 < row["median"] <= row["highest"] for row in called.values())
    assert set(result["seconds"]) == {"save", "save_again", "open", "open_unverified", "first_match"}
    assert all(seconds > 0 for seconds in result["seconds"].values())
    assert len(result["verdicts"]) == 4 and all(verdict["met"] is not None for verdict in result["verdicts"])


def test_the_command_shows_tables_and_writes_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SMALL", TINY)
    done = CliRunner().invoke(app, ["bench", "live", "--output", str(tmp_path)])
    assert done.exit_code == 0, done
    assert "near_misses" in done.stdout and "Targets" in done.stdout and "save and open" in done.stderr
    assert json.loads((tmp_path / "live.json").read_text())["sizes"]["subscriptions"] == 500


def test_a_change_that_is_not_seen_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Index, "match", lambda *_: [])
    with pytest.raises(live.NotVisible, match="`add`"):
        live.run(TINY)
