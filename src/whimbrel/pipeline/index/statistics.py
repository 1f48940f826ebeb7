"""Statistics of events, computed by Spark: for each attribute how often it is present, and its values."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from pathlib import Path
from types import NoneType

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql import types as t
from pyspark.sql.types import DataType

from whimbrel.model.event import attribute_names
from whimbrel.pipeline.errors import check_type
from whimbrel.pipeline.index.store import IndexStore
from whimbrel.pipeline.spark.dataframes import check_frame, positional
from whimbrel.pipeline.spark.expressions import instant
from whimbrel.pipeline.spark.transfer import FieldPath, plan_transfer

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.95, 1.0)
FREQUENT = 10
"""Values that are listed as frequent, at most."""
SAMPLE_EVENTS = 10_000
"""Events that the planner looks at."""


def statistics(events: DataFrame, attributes: Collection[str] | None = None) -> DataFrame:
    """One row for each attribute that is a column or a field of a struct.

    | column | what it holds |
    | --- | --- |
    | attribute, type | the name, and Spark's type |
    | events, present | rows, and those of them in which it has a value: null, NaN and an empty list are none |
    | distinct | different values, about; null for lists and maps |
    | quantiles | of numbers, and of times in seconds: the least value, those at 25, 50, 75 and 95 %, the largest |
    | frequent | the ten most frequent values as text, with how often they come; none for lists and maps |

    `attributes` names those to look at, by default all.
    """
    check_frame("events", events, streaming=False)
    check_type("attributes", attributes, (Collection, NoneType), "names of attributes")
    taken, fields = _attributes(events, attributes)
    if not fields:
        return events.sparkSession.createDataFrame([], _SCHEMA)
    values = [(at, field.dataType) for at, field in enumerate(taken.schema.fields)]
    facts = f.array(*(_facts(at, field.name, kind) for field, (at, kind) in zip(fields, values, strict=True)))
    rows = taken.agg(facts.alias("facts")).select(f.explode("facts").alias("fact")).select("fact.*")
    most = _frequent(taken, [at for at, kind in values if not _is_nested(kind)])
    empty = f.array().cast("array<struct<value: string, count: bigint>>")
    found = rows.join(most, "number", "left").withColumn("frequent", f.coalesce("frequent", empty))
    return found.orderBy("number").drop("number")


_SCHEMA = (
    "attribute string, type string, events bigint, present bigint, distinct bigint, "
    "quantiles array<double>, frequent array<struct<value: string, count: bigint>>"
)


def _attributes(events: DataFrame, attributes: Collection[str] | None) -> tuple[DataFrame, tuple[FieldPath, ...]]:
    """The attributes as columns named a0, a1 and so on, and their fields; None stands for all."""
    renamed, columns = positional(events)
    named = None if attributes is None else attribute_names(attributes, "attributes")
    fields = plan_transfer(events.schema, named).fields
    return renamed.select(*(field.column(columns).alias(f"a{at}") for at, field in enumerate(fields))), fields


def _facts(number: int, name: str, kind: DataType) -> Column:
    """The statistics of one attribute, from a single pass over the events."""
    value = _value(number, kind)
    there = f.size(value) > 0 if isinstance(kind, t.ArrayType | t.MapType) else value.isNotNull()
    distinct = f.lit(None) if _is_nested(kind) else f.approx_count_distinct(value)
    quantiles = f.lit(None).cast("array<double>")
    if isinstance(kind, t.NumericType):
        quantiles = f.percentile_approx(value.cast("double"), list(QUANTILES))
    elif isinstance(kind, t.DateType | t.TimestampType | t.TimestampNTZType):
        quantiles = f.percentile_approx(f.expr(instant(f"a{number}", kind)).cast("double"), list(QUANTILES))
    return f.struct(
        f.lit(number).alias("number"),
        f.lit(name).alias("attribute"),
        f.lit(kind.simpleString()).alias("type"),
        f.count(f.lit(1)).alias("events"),
        f.count(f.when(there, True)).alias("present"),
        distinct.cast("bigint").alias("distinct"),
        quantiles.alias("quantiles"),
    )


def _frequent(taken: DataFrame, numbers: list[int]) -> DataFrame:
    """The most frequent values of each attribute: all (attribute, value) pairs are counted, the top ones kept."""
    kinds = [field.dataType for field in taken.schema.fields]
    pairs = [
        f.struct(f.lit(number).alias("number"), _value(number, kinds[number]).cast("string").alias("value"))
        for number in numbers
    ]
    none = f.array().cast("array<struct<number: int, value: string>>")
    each = taken.select(f.explode(f.array(*pairs) if pairs else none).alias("pair")).select("pair.*")
    counts = each.where(f.col("value").isNotNull()).groupBy("number", "value").count()
    ranked = Window.partitionBy("number").orderBy(f.desc("count"), "value")
    top = counts.withColumn("rank", f.row_number().over(ranked)).where(f.col("rank") <= FREQUENT)
    ordered = f.array_sort(f.collect_list(f.struct("rank", "value", "count")))
    return top.groupBy("number").agg(f.transform(ordered, lambda one: one.dropFields("rank")).alias("frequent"))


def _value(number: int, kind: DataType) -> Column:
    """The column of an attribute; NaN is no value."""
    column = f.col(f"a{number}")
    return f.when(~f.isnan(column), column) if isinstance(kind, t.FloatType | t.DoubleType) else column


def _is_nested(kind: DataType) -> bool:
    return isinstance(kind, t.ArrayType | t.MapType | t.StructType)


def sample_file(events: DataFrame, store: IndexStore) -> Path:
    """Write some events to a file of the store and return its path."""
    path = store.path / f".sample-{secrets.token_hex(8)}.arrow"
    taken, fields = _attributes(events, None)
    # Spark cannot collect a list or map with something void inside; a plan does not need it.
    kept = [
        at
        for at, field in enumerate(taken.schema)
        if not (_is_nested(field.dataType) and "void" in field.dataType.simpleString())
    ]
    table = taken.select(*(f"a{at}" for at in kept)).limit(SAMPLE_EVENTS).toArrow()
    table = table.rename_columns([fields[at].name for at in kept])
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
        out.write_table(table)
    return path
