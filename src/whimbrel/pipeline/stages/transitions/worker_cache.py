"""What an executor keeps of buckets beside the state store, as a cache: each worker in memory, all of them on disk.

The state of a bucket is a list of parts that never change, a base and deltas, each with a token of its own. Whichever
worker gets the bucket next has it in memory, or some of its parts, and reads the others from the disk, where they are
with what they matched. The state store is read only where that fails: it hands bytes over at a few megabytes a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from whimbrel.pipeline.index.workers import open_version
from whimbrel.pipeline.spark.transfer import HandOver
from whimbrel.publications.diff import Matches
from whimbrel.publications.index_version import Version
from whimbrel.publications.rules import Rules
from whimbrel.publications.state import Bucket

BUCKETS_KEPT = 4_096

_VERSIONS_KEPT = 8

_MATCHES = "matches"

_kept: dict[tuple[str, int], Kept] = {}
_opened: dict[tuple[str, int], Version] = {}


class Kept:
    """A bucket with the token of what was written last, and the tokens of the parts that it was made of."""

    def __init__(self, bucket: Bucket, token: str, parts: list[str]) -> None:
        self.bucket = bucket
        self.token = token
        self.parts = parts


def take(job: str, number: int) -> Kept | None:
    """The bucket as this process has it; it is the caller's alone now."""
    return _kept.pop((job, number), None)


def keep(job: str, number: int, kept: Kept) -> None:
    """Put a bucket back; the one that was not used for longest goes if there are many."""
    while len(_kept) >= BUCKETS_KEPT:
        _kept.pop(next(iter(_kept)))
    _kept[job, number] = kept


def write_part(folder: Path, token: str, states: pa.Table, matches: Matches) -> None:
    """Write a part, if the disk takes it."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        table = states.append_column(_MATCHES, matches.to_lists()).combine_chunks()
        with pa.OSFile(str(folder / f"{token}.new"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
        (folder / f"{token}.new").rename(folder / token)


def read_part(folder: Path, token: str, bound: int) -> tuple[pa.Table, Matches] | None:
    """States and matches of a part; None if it is not on this disk. All codes are below `bound`."""
    try:
        with pa.memory_map(str(folder / token)) as file:
            table = pa.ipc.open_stream(file).read_all()
    except (OSError, pa.ArrowInvalid):
        return None
    last = table.num_columns - 1
    lists = table.column(last).combine_chunks()
    lists = lists.chunk(0) if isinstance(lists, pa.ChunkedArray) else lists
    return table.remove_column(last), Matches.of_lists(lists, bound)


def drop_parts(folder: Path, tokens: Iterable[str]) -> None:
    """Remove parts that are no longer part of anything."""
    for token in tokens:
        with suppress(OSError):
            (folder / token).unlink(missing_ok=True)


def versions(
    name: str, path: Path, kind: str, handed: HandOver, rules: Rules, timestamps: tuple[str, ...]
) -> Callable[[int], Version]:
    """A function that opens a version for a job of this name; the process keeps some."""

    def opened(number: int) -> Version:
        found = _opened.get((name, number))
        if found is None:
            manifest, shards = open_version(path, number, timestamps)
            handed.check(manifest.attributes)
            while len(_opened) >= _VERSIONS_KEPT:
                _opened.pop(next(iter(_opened)))
            found = _opened[name, number] = Version(number, shards, kind, rules)
        return found

    return opened
