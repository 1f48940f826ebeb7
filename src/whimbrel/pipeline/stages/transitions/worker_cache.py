"""The caches of buckets beside Spark's state store: in the memory of a Python worker, and on disk for all workers.

The state of a bucket is a list of parts that never change, a base and deltas, each with a token of its own. A worker
that gets a bucket has it in memory, or some of its parts, and reads the others from the disk of the executor, where
they are stored with their matches. Only if a part is missing there it reads the state store, which is slow: a few
megabytes a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from whimbrel.pipeline.index.workers import open_version
from whimbrel.pipeline.spark.transfer import ColumnTransfer
from whimbrel.publications.arrow_columns import as_array
from whimbrel.publications.changes import Matches
from whimbrel.publications.index_version import IndexVersion
from whimbrel.publications.publications import Publications
from whimbrel.storage.atomic import staged_file

BUCKETS_KEPT = 4_096
_VERSIONS_KEPT = 8

_buckets: dict[tuple[str, int], CachedBucket] = {}
_versions: dict[tuple[str, int], IndexVersion] = {}


@dataclass
class CachedBucket:
    """A bucket of publications, the token of the last write, and the tokens of the parts that it was made of."""

    publications: Publications
    token: str
    parts: list[str]


def take_bucket(job: str, number: int) -> CachedBucket | None:
    """Take a bucket out of the memory of this process; None if it is not there."""
    return _buckets.pop((job, number), None)


def keep_bucket(job: str, number: int, bucket: CachedBucket) -> None:
    """Put a bucket back; if there are too many, the least recently used one goes."""
    while len(_buckets) >= BUCKETS_KEPT:
        _buckets.pop(next(iter(_buckets)))
    _buckets[job, number] = bucket


def version_opener(
    job: str, path: Path, id_kind: str, transfer: ColumnTransfer, timestamps: tuple[str, ...]
) -> Callable[[int], IndexVersion]:
    """A function that opens a version of the index for a job; this process keeps some."""

    def opened(number: int) -> IndexVersion:
        found = _versions.get((job, number))
        if found is None:
            manifest, shards = open_version(path, number, timestamps)
            transfer.check(manifest.attributes)
            while len(_versions) >= _VERSIONS_KEPT:
                _versions.pop(next(iter(_versions)))
            found = _versions[job, number] = IndexVersion(number, shards, id_kind)
        return found

    return opened


def write_part(folder: Path, token: str, states: pa.Table, matches: Matches) -> None:
    """Write a part to the disk. A full disk is no error: the state store has the part too."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        table = states.append_column("matches", matches.to_lists()).combine_chunks()
        with (
            staged_file(folder / token, durable=False) as staged,
            pa.OSFile(str(staged), "wb") as file,
            pa.ipc.new_stream(file, table.schema) as writer,
        ):
            writer.write_table(table)


def read_part(folder: Path, token: str, bound: int) -> tuple[pa.Table, Matches] | None:
    """Read the states and matches of a part; None if it is not on this disk. All codes are below `bound`."""
    try:
        with pa.memory_map(str(folder / token)) as file:
            table = pa.ipc.open_stream(file).read_all()
    except (OSError, pa.ArrowInvalid):
        return None
    last = table.num_columns - 1
    return table.remove_column(last), Matches.of_lists(as_array(table.column(last)), bound)


def drop_parts(folder: Path, tokens: Iterable[str]) -> None:
    """Delete parts from the disk."""
    for token in tokens:
        with suppress(OSError):
            (folder / token).unlink(missing_ok=True)
