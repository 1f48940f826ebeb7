"""Processes that others have started, as Linux shows them in /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def processes_below(number: int) -> Iterator[int]:
    """All processes below one, found by their parents."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(int(fields[1]), []).append(int(entry))
    waiting = [number]
    while waiting:
        below = children.get(waiting.pop(), [])
        yield from below
        waiting += below


def command_of(number: int) -> str:
    """The command of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return ""
