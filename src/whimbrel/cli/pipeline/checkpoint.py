"""A checkpoint belongs to one pipeline: what it was made for is written beside Spark's own files, and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from whimbrel.model.errors import WhimbrelError

NAME = "whimbrel.json"


class ForeignCheckpoint(WhimbrelError):
    """A checkpoint of another pipeline: the `path`, and what about it differs."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path = str(path)
        self.problem = problem
        super().__init__(f"{path}: Expected a checkpoint of this pipeline, but {problem} (choose another --checkpoint)")


def claim(folder: Path, pipeline: Mapping[str, object]) -> None:
    """Make the checkpoint that of a pipeline; ForeignCheckpoint if it is that of another."""
    file = folder / NAME
    if not folder.exists():
        folder.mkdir(parents=True)
    elif not folder.is_dir():
        raise ForeignCheckpoint(folder, "it is not a directory")
    elif not file.exists() and any(folder.iterdir()):
        raise ForeignCheckpoint(folder, f"it has other files and no {NAME}")
    if not file.exists():
        file.write_text(json.dumps(pipeline, indent=1) + "\n", encoding="utf-8")
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
