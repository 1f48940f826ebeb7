"""Publish an index version without Spark: one bucket, compiled in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from whimbrel.pipeline.index.shards import compile_bucket
from whimbrel.pipeline.index.store import IndexStore, VersionManifest


def publish(path: Path, filters: Mapping[int, str] | Mapping[str, str]) -> int:
    """The number of a new version that holds just these filters by id."""
    store = IndexStore(path)
    kind = "string" if any(isinstance(id, str) for id in filters) else "int64"
    columns = {"id": list(filters), "filter": list(filters.values()), "dialect": [None] * len(filters)}
    ids = pa.string() if kind == "string" else pa.int64()
    schema = pa.schema([("id", ids), ("filter", pa.string()), ("dialect", pa.string())])
    with store.lock():
        latest = max(store.versions(), default=None)
        outcome = compile_bucket(store, 0, pa.table(columns, schema), None, kind, None)
        assert outcome.rejected == 0
        shards = () if outcome.shard is None else (outcome.shard,)
        return store.publish(
            VersionManifest(
                version=(latest or 0) + 1,
                parent=latest,
                kind=kind,
                buckets=1,
                shards=shards,
                attributes=tuple(outcome.attributes),
                count=len(filters),
                bytes=sum(shard.bytes for shard in shards),
            )
        )
