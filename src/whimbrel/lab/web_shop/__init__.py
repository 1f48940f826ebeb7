"""A bundled sample: a day of events of a small web shop, and the subscriptions that people and programs have on it.

`tests/lab/web_shop.py` writes the two files.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from whimbrel.model.subscription import Id

TIMESTAMPS = ("time",)
"""The attributes of the sample's events whose strings are timestamps."""

_NAMES = ("subscriptions.jsonl", "events.jsonl")


def sample_subscriptions() -> list[tuple[Id, str]]:
    """Id and filter of every subscription."""
    return [(row["id"], row["filter"]) for row in map(json.loads, _lines("subscriptions.jsonl"))]


def sample_events() -> list[dict[str, object]]:
    """The events in order of time."""
    return [json.loads(line) for line in _lines("events.jsonl")]


def write_samples(folder: Path) -> list[Path]:
    """Copy the sample's files into a folder, which is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in _NAMES:
        (folder / name).write_bytes((files("whimbrel.lab.web_shop") / name).read_bytes())
        written.append(folder / name)
    return written


def _lines(name: str) -> list[str]:
    return (files("whimbrel.lab.web_shop") / name).read_text(encoding="utf-8").splitlines()
