"""The checker of deliveries: a good history passes, and each kind of trouble is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from whimbrel.lab.delivery_checker import judge

EVENTS = [{"source": "p", "id": str(n), "data": {"n": n}} for n in range(4)]


def delivered(offset: int, number: int, session: int = 1) -> dict[str, Any]:
    names = {"source": "p", "id": str(number)}
    return {"op": "delivered", "subscription": "s", "session": session, "offset": offset, **names}


def acked(number: int, offset: int) -> dict[str, Any]:
    return {"op": "acked", "source": "p", "id": str(number), "offset": offset}


AGAIN = {"op": "session", "subscription": "s", "session": 3, "after": 11}
# Events 0 to 3 are at 10 to 13; s sees n < 2, and from 12 on n > 2.
GOOD: list[dict[str, Any]] = [
    {"op": "version", "subscription": "s", "filter": "data.n < 2", "from": 5},
    *({"op": "attempt", "event": event} for event in EVENTS),
    *(acked(n, 10 + n) for n in range(4)),
    {"op": "version", "subscription": "s", "filter": "data.n > 2", "from": 12},
    {"op": "session", "subscription": "s", "session": 1, "after": -1},
    delivered(10, 0),
    delivered(11, 1),
    {"op": "session", "subscription": "s", "session": 2, "after": 10},
    delivered(11, 1, 2),
    delivered(13, 3, 2),
]


def test_a_good_history() -> None:
    verdict = judge(GOOD)
    assert verdict.is_good, str(verdict)
    assert (verdict.acked, verdict.delivered, verdict.repeated, verdict.recovered) == (4, 4, 1, 0)


def test_an_event_that_nobody_was_told_about_may_be_delivered_or_not() -> None:
    history = [line for line in GOOD if line != acked(3, 13)]
    assert judge(history).recovered == 1 and judge(history).is_good
    assert judge(history[:-1]).is_good


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda lines: lines[:-1], "lost"),
        (lambda lines: [*lines, delivered(12, 2, 2)], "out of order"),
        (lambda lines: [*lines, AGAIN, delivered(12, 2, 3)], "wrong"),
        (lambda lines: [*lines, delivered(14, 9, 2)], "wrong"),
        (lambda lines: [*lines, delivered(13, 3, 2)], "out of order"),
        (lambda lines: [*lines, AGAIN, delivered(11, 1, 3)], "out of order"),
        (lambda lines: [*lines, acked(3, 14)], "doubled"),
        (lambda lines: [*lines, {"op": "ended", "subscription": "s", "until": 13}], "wrong"),
    ],
)
def test_trouble_is_found(change: Any, kind: str) -> None:
    verdict = judge(change(list(GOOD)))
    assert kind in verdict.problems, str(verdict)


def test_it_is_a_program(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    for lines, status in ((GOOD, 0), (GOOD[:-1], 1)):
        file.write_bytes(msgspec.json.Encoder().encode_lines(lines))
        command = [sys.executable, "-m", "whimbrel.lab.delivery_checker", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == status and "4 acknowledged" in done.stdout
