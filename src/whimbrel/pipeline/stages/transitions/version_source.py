"""The versions of an index as a stream: one control row for each bucket when a new version was published.

The offset of the stream is the newest version. Thus the checkpoint of the query says from which micro-batch on a
version is used, and a replay uses the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from whimbrel.pipeline.index.store import IndexStore
from whimbrel.pipeline.stages.transitions.update_cells import bucket_numbers

FORMAT = "whimbrel_versions"


class VersionSource(DataSource):
    """The data source: options `path` of the index and `buckets`."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return StructType([StructField("bucket", IntegerType(), False), StructField("version", LongType(), False)])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return _Reader(self.options["path"], int(self.options["buckets"]))


@dataclass
class _Version(InputPartition):
    """One task: the rows of a version."""

    version: int


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, path: str, buckets: int) -> None:
        self._store = IndexStore(path)
        self._buckets = buckets
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"version": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """No limit: a micro-batch goes to the newest version."""
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._store.newest()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        return {"version": self._store.newest() if self._target is None else max(self._target, start["version"])}

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"version": self._store.newest()}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One task, for the newest version; those between are skipped."""
        return [_Version(end["version"])] if end["version"] > start["version"] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int]]:
        assert isinstance(partition, _Version)
        return iter([(bucket, partition.version) for bucket in bucket_numbers(self._buckets).tolist()])
