"""The checkpoint of a stream: which run it belongs to, and how far the stream is behind its source.

What a checkpoint was made for is written beside Spark's own files and compared before it is used again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from whimbrel.model.errors import WhimbrelError
from whimbrel.pipeline.connectors.files import InputFormat, is_remote, local, names_below
from whimbrel.storage.atomic import replace_file

NAME = "whimbrel.json"


class ForeignCheckpoint(WhimbrelError):
    """A checkpoint of another pipeline: its `path`, and what differs."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = str(path), problem
        super().__init__(f"{path}: Expected a checkpoint of this pipeline, but {problem} (choose another --checkpoint)")


def claim(folder: Path, pipeline: Mapping[str, object]) -> None:
    """Take a checkpoint for a pipeline; ForeignCheckpoint if it belongs to another."""
    file = folder / NAME
    if not folder.exists():
        folder.mkdir(parents=True)
    elif not folder.is_dir():
        raise ForeignCheckpoint(folder, "it is not a directory")
    elif not file.exists() and any(folder.iterdir()):
        raise ForeignCheckpoint(folder, f"it has other files and no {NAME}")
    if not file.exists():
        replace_file(file, [json.dumps(pipeline, indent=1).encode()])
        return
    try:
        made_for = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise ForeignCheckpoint(file, "it is not JSON") from None
    if not isinstance(made_for, dict):
        raise ForeignCheckpoint(file, "it does not describe one")
    for name, value in pipeline.items():
        if made_for.get(name) != value:
            raise ForeignCheckpoint(file, f"its {name} is {made_for.get(name)!r}, not {value!r}")


def lag_of(progress: Mapping[str, Any], path: str, format: InputFormat, checkpoint: Path) -> tuple[int, str] | None:
    """The number of events of a log, or of files of a directory, that wait, and which of the two; None if unknown."""
    sources = progress.get("sources") or []
    if not sources:
        return None
    if format is InputFormat.LOG:
        latest, end = (_offset(sources[0].get(name)) for name in ("latestOffset", "endOffset"))
        return None if latest is None or end is None else (max(0, latest - end), "events")
    if is_remote(path):
        return None
    there = sum(1 for _ in names_below(local(path)))
    return max(0, there - _taken(checkpoint / "sources" / "0")), "files"


def _offset(offset: object) -> int | None:
    """The log offset of an offset of the source."""
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return None
    place = found.get("offset") if isinstance(found, dict) else None
    return place if isinstance(place, int) else None


def _taken(folder: Path) -> int:
    """The number of files that Spark noted as read: a line for each, below a line with the version of the format."""
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
    return sum(note.read_bytes().count(b"\n") for number, note in notes.items() if number >= compacted)
