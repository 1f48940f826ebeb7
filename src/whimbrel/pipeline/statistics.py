"""What events are like, gathered in Spark SQL: per attribute how often it is there, and which values it has."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from whimbrel.pipeline.attributes import Leaf, hand_over, positional
from whimbrel.pipeline.store import IndexStore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
FREQUENT = 10
"""Values that are listed as frequent, at most."""
SAMPLE_EVENTS = 10_000
"""Events that the planner looks at."""


def statistics(events: DataFrame, attributes: Collection[str] | None = None) -> DataFrame:
    """One row for each attribute that is a column or a field of a struct, in one pass over the events.

    | column | what it holds |
    | --- | --- |
    | attribute, type | the name, and Spark's type |
    | events, present | rows, and those of them in which it has a value: null, NaN and an empty list are none |
    | distinct | different values, about; null for lists and maps |
    | quantiles | of numbers, and of times in seconds: the least value, those at 25, 50, 75 and 95 %, the largest |
    | frequent | the most frequent values as text, with how often they come, about |

    `attributes` names those to look at, by default all.
    """
    from pyspark.sql import functions as f

    renamed, columns = positional(events)
    leaves = hand_over(events.schema, attributes).leaves
    if not leaves:
        return events.sparkSession.createDataFrame([], _SCHEMA)
    taken = renamed.select(*(leaf.column(columns).alias(f"a{at}") for at, leaf in enumerate(leaves)))
    facts = [
        _facts(leaf, f.col(f"a{at}"), field.dataType)
        for at, (leaf, field) in enumerate(zip(leaves, taken.schema.fields, strict=True))
    ]
    return taken.agg(f.array(*facts).alias("facts")).select(f.explode("facts").alias("fact")).select("fact.*")


_SCHEMA = (
    "attribute string, type string, events bigint, present bigint, distinct bigint, "
    "quantiles array<double>, frequent array<struct<value: string, count: bigint>>"
)


def _facts(leaf: Leaf, column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql import types as t

    is_nested = isinstance(kind, t.ArrayType | t.MapType | t.StructType | t.NullType)
    if isinstance(kind, t.FloatType | t.DoubleType):
        column = f.when(~f.isnan(column), column)
    if isinstance(kind, t.ArrayType | t.MapType):
        present = f.count(f.when(f.size(column) > 0, True))
    else:
        present = f.count(column)
    quantiles = f.lit(None).cast("array<double>")
    if isinstance(kind, t.NumericType):
        quantiles = f.percentile_approx(column.cast("double"), list(QUANTILES))
    elif isinstance(kind, t.DateType | t.TimestampType | t.TimestampNTZType):
        quantiles = f.percentile_approx(column.cast("timestamp").cast("double"), list(QUANTILES))
    frequent = f.lit(None).cast("array<struct<value: string, count: bigint>>")
    if not is_nested:
        pairs = f.call_function("approx_top_k", column, f.lit(FREQUENT))
        frequent = f.transform(
            f.filter(pairs, lambda one: one["item"].isNotNull()),
            lambda one: f.struct(one["item"].cast("string").alias("value"), one["count"].alias("count")),
        )
    return f.struct(
        f.lit(leaf.name).alias("attribute"),
        f.lit(kind.simpleString()).alias("type"),
        f.count(f.lit(1)).alias("events"),
        present.alias("present"),
        (f.lit(None).cast("bigint") if is_nested else f.approx_count_distinct(column)).alias("distinct"),
        quantiles.alias("quantiles"),
        frequent.alias("frequent"),
    )


def to_entries(facts: DataFrame) -> tuple[dict[str, object], ...]:
    """The statistics as values of JSON; there are as many rows as columns, never as many as events."""
    return tuple(row.asDict(recursive=True) for row in facts.collect())


def sample_file(events: DataFrame, store: IndexStore) -> Path:
    """Have a worker write some events to a file of the store, and return its path."""
    path = store.path / f".sample-{secrets.token_hex(8)}.arrow"
    renamed, columns = positional(events)
    leaves = hand_over(events.schema, None).leaves
    names = [leaf.name for leaf in leaves]

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = [pa.Table.from_arrays(batch.columns, names) for batch in batches]
        if tables:
            whole = pa.concat_tables(tables)
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, whole.schema) as out:
                out.write_table(whole)
        yield from ()

    taken = renamed.select(*(leaf.column(columns).alias(f"a{at}") for at, leaf in enumerate(leaves)))
    taken.limit(SAMPLE_EVENTS).coalesce(1).mapInArrow(write, "done int").count()
    return path
