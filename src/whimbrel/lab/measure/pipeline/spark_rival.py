"""The role of a rival of the pipeline: a query in Spark SQL that gives the pairs of events and subscriptions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class SparkRival(ABC):
    """One way to ask in SQL. An object is loaded once and then asked for any number of events."""

    name: str

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._views: list[str] = []

    @abstractmethod
    def load(self, subscriptions: pa.Table, sample: pa.Table, folder: Path) -> None:
        """Take the table (id, filter) and some events, and make views of them, with files in the folder."""

    @abstractmethod
    def query(self, events: str) -> str:
        """The query that gives event_id and subscription for the events of a view."""

    def count(self, events: str) -> int:
        """What is timed: find all pairs and give their number."""
        row = self.spark.sql(f"SELECT count(*) FROM ({self.query(events)})").first()
        assert row is not None
        return int(row[0])

    def table(self, name: str, columns: dict[str, pa.Array], folder: Path) -> str:
        """Write a table to the folder; what to read it by in SQL."""
        import pyarrow as pa
        import pyarrow.parquet

        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.parquet"
        pa.parquet.write_table(pa.table(columns), path)
        return f"parquet.`{path}`"

    def view(self, name: str, query: str) -> None:
        """A view that is held in memory."""
        self.spark.sql(query).createOrReplaceTempView(name)
        self.spark.catalog.cacheTable(name)
        self.spark.table(name).count()
        self._views.append(name)

    def close(self) -> None:
        """Give back the memory."""
        for name in self._views:
            self.spark.catalog.uncacheTable(name)
            self.spark.catalog.dropTempView(name)
        self._views.clear()
