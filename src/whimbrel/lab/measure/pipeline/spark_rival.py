"""The role of a rival of the pipeline: a query in Spark SQL that returns the pairs that match."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


class SparkRival(ABC):
    """One form of the query. An object is loaded once and then queried with any number of events."""

    name: str

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._views: list[str] = []

    @abstractmethod
    def load(self, subscriptions: pa.Table, sample: pa.Table, folder: Path) -> None:
        """Make views of the table (id, filter), with files in the folder; `sample` has events to choose keys by."""

    @abstractmethod
    def query(self, events: str) -> str:
        """The query that returns event_id and subscription of all pairs, for the events of a view."""

    def count(self, events: str) -> int:
        """Find all pairs and return their number. This is what is timed."""
        row = self.spark.sql(f"SELECT count(*) FROM ({self.query(events)})").first()
        assert row is not None
        return int(row[0])

    def table(self, name: str, columns: dict[str, pa.Array], folder: Path) -> str:
        """Write a table to the folder. Return the expression that reads it in SQL."""
        import pyarrow as pa
        import pyarrow.parquet

        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.parquet"
        pa.parquet.write_table(pa.table(columns), path)
        return f"parquet.`{path}`"

    def view(self, name: str, query: str) -> None:
        """Make a view of a query and hold it in memory."""
        self.spark.sql(query).createOrReplaceTempView(name)
        self.spark.catalog.cacheTable(name)
        self.spark.table(name).count()
        self._views.append(name)

    def close(self) -> None:
        """Free the memory of all views."""
        for name in self._views:
            self.spark.catalog.uncacheTable(name)
            self.spark.catalog.dropTempView(name)
        self._views.clear()


SparkRivalMaker = Callable[["SparkSession"], SparkRival]
"""Makes a new rival on a session."""
SPARK_RIVALS: dict[str, SparkRivalMaker] = {}
"""The rivals by name. None is part of the library; `python -m benchmarks` adds some."""
