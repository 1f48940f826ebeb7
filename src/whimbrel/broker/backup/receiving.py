"""Receive a backup that a broker sends, and check it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.broker.backup.frames import read_frames
from whimbrel.broker.backup.making import Progress, check, finish, staging
from whimbrel.broker.backup.manifest import FORMAT_VERSION, STORE, BackupError, Manifest
from whimbrel.broker.lists import lost_keys
from whimbrel.log.copying import LogCopy
from whimbrel.log.reader import FormerId


def receive(pieces: Iterable[bytes], target: Path, progress: Progress | None = None, verify: bool = True) -> Manifest:
    """Write a backup to `target`, which must not exist."""
    with staging(target) as staged:
        frames = read_frames(pieces)
        name, content = next(frames)
        if name != "facts":
            raise BackupError("the stream", f"Expected the facts of a backup first, but got {name!r}")
        facts = msgspec.convert(content["manifest"], Manifest)
        if facts.format > FORMAT_VERSION:
            raise BackupError("the stream", f"Expected a backup that this Whimbrel knows, but got {facts.format}")
        copy = LogCopy(staged / "log", facts.log, facts.floor, [FormerId(*one) for one in content["former"]])
        try:
            _write(frames, staged, copy, facts, progress)
        finally:
            copy.finish()
        made = finish(staged, facts)
        if verify:
            check(staged, made, progress)
    return made


def _write(
    frames: Iterable[tuple[str, Any]], staged: Path, copy: LogCopy, facts: Manifest, progress: Progress | None
) -> None:
    files = {"store": staged / STORE, "lost": staged / "matches" / lost_keys.FILE_NAME}
    for name, content in frames:
        if name in files:
            with files[name].open("ab") as file:
                file.write(content)
        elif name == "log":
            copy.add([tuple(row) for row in content])
            if progress is not None:
                progress("log", content[-1][0] + 1 - facts.floor, facts.end - facts.floor)
