"""How far a stream is behind: events of a log, or files of a directory, that no micro-batch has taken yet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whimbrel.cli.pipeline.inputs import InputFormat, is_remote, names_below


def lag_of(progress: Mapping[str, Any], path: str, format: InputFormat, checkpoint: Path) -> tuple[int, str] | None:
    """The number of events or files that wait, and which of the two; None where it cannot be known."""
    sources = progress.get("sources") or []
    if not sources:
        return None
    if format is InputFormat.LOG:
        ends = [_offset(sources[0].get(name)) for name in ("latestOffset", "endOffset")]
        return None if None in ends else (max(0, (ends[0] or 0) - (ends[1] or 0)), "events")
    if is_remote(path):
        return None
    there = sum(1 for _ in names_below(Path(path.removeprefix("file://"))))
    return max(0, there - _taken(checkpoint / "sources" / "0")), "files"


def _offset(offset: object) -> int | None:
    """The place in a log that an offset of the source names."""
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return None
    place = found.get("offset") if isinstance(found, dict) else None
    return place if isinstance(place, int) else None


def _taken(folder: Path) -> int:
    """The files that Spark has noted as taken: one line each, after a line with the version of the format."""
    if not folder.is_dir():
        return 0
    notes: dict[int, Path] = {}
    compacted = -1
    for note in folder.iterdir():
        number, _, kind = note.name.partition(".")
        if number.isdecimal():
            notes[int(number)] = note
            if kind == "compact":
                compacted = max(compacted, int(number))
    return sum(max(0, note.read_bytes().count(b"\n")) for number, note in notes.items() if number >= compacted)
