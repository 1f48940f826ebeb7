"""What Spark's state store holds of a bucket, and how a new query with other buckets reads it.

meta    one value: `BucketMeta`
base    one value: the first part, states as an Arrow stream
delta   a list: the other parts, states that changed since, one for each micro-batch
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pandas as pd
import pyarrow as pa

from whimbrel.publications.publications import table_from_bytes, table_to_bytes
from whimbrel.publications.updates import KEY


class BucketMeta(msgspec.Struct, frozen=True, array_like=True):
    """All that is stored of a bucket except states.

    Every write makes a new token. A cached bucket (`worker_cache`) with another token is out of date: its batch failed,
    or a later batch ran on another worker.
    """

    version: int
    token: str
    parts: list[str]
    """The tokens of the parts, the base first."""
    pairs: list[tuple[int | str, int | str, float | None]]
    """Remembered pairs: key, subscription, and when it leaves if it is out."""
    timer: int | None
    """When Spark's timer fires, in milliseconds."""
    now: float | None


def to_publications(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Rows of meta, base and deltas in, publications out. Keys are text, so that one schema serves both types."""
    for frame in frames:
        for meta, base, deltas in zip(frame["meta"], frame["base"], frame["deltas"], strict=True):
            yield _publications(meta, base, [] if deltas is None else list(deltas))


def _publications(meta: bytes, base: bytes | None, deltas: list[bytes]) -> pd.DataFrame:
    stored = msgspec.msgpack.decode(meta, type=BucketMeta)
    tables = [table_from_bytes(content) for content in [*([] if base is None else [base]), *deltas]]
    inside: dict[int | str, list[tuple[int | str, float | None]]] = {}
    for key, id, due in stored.pairs:
        inside.setdefault(key, []).append((id, due))
    newest: dict[int | str, tuple[pa.Table, int]] = {}
    for table in tables:
        for row, key in enumerate(table.column(KEY).to_pylist()):
            newest[key] = table, row
    return pd.DataFrame(
        {
            "k": [str(key) for key in newest],
            "version": [stored.version] * len(newest),
            "content": [table_to_bytes(table.slice(row, 1)) for table, row in newest.values()],
            "pairs": [msgspec.msgpack.encode(inside.get(key, [])) for key in newest],
        }
    )
