"""The state of buckets taken apart: one row for each publication, whatever bucket it is to go to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pandas as pd
import pyarrow as pa

from whimbrel.publications.state import KEY


def exploded(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Rows of meta, base and deltas in, publications out; the key as text, as Spark hashes it apart from its type."""
    for frame in frames:
        for meta, base, deltas in zip(frame["meta"], frame["base"], frame["deltas"], strict=True):
            yield _publications(meta, base, [] if deltas is None else list(deltas))


def _publications(meta: bytes, base: bytes | None, deltas: list[bytes]) -> pd.DataFrame:
    version, _, _, pairs, _, _ = msgspec.msgpack.decode(meta)
    tables = [read_table(content) for content in [*([] if base is None else [base]), *deltas]]
    inside: dict[Any, list[tuple[Any, float | None]]] = {}
    for key, id, due in pairs:
        inside.setdefault(key, []).append((id, due))
    newest: dict[Any, tuple[pa.Table, int]] = {}
    for table in tables:
        for row, key in enumerate(table.column(KEY).to_pylist()):
            newest[key] = table, row
    return pd.DataFrame(
        {
            "k": [str(key) for key in newest],
            "version": [version] * len(newest),
            "content": [write_table(table.slice(row, 1)) for table, row in newest.values()],
            "pairs": [msgspec.msgpack.encode(inside.get(key, [])) for key in newest],
        }
    )


def write_table(table: pa.Table) -> bytes:
    """A table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_table(content: bytes) -> pa.Table:
    """The table of bytes."""
    return pa.ipc.open_stream(pa.py_buffer(bytes(content))).read_all()
