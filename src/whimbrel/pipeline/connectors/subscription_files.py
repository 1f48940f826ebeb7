"""Files of subscriptions as a table to compile, and the rows that are no subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from whimbrel.pipeline.connectors.files import TEXT, InputFormat, read, read_csv_texts, recognise, types_of_texts
from whimbrel.readers.errors import InputPlace, MissingField, WrongFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIELDS = ("id", "filter", "dialect")
_COLUMNS = (*_FIELDS, "owner")


@dataclass(frozen=True, slots=True)
class SubscriptionRows:
    """`rows` has id, filter, and dialect and owner if the file has them; `refused` has id, text and message."""

    rows: DataFrame
    refused: DataFrame


def read_subscriptions(spark: SparkSession, path: str, fallback: InputFormat | None) -> SubscriptionRows:
    """Read the subscriptions of a file or directory."""
    format = recognise(path, fallback)
    if format is InputFormat.LOG:
        raise WrongFormat(InputPlace(path), "Expected subscriptions, but got a log of events")
    if format is InputFormat.JSON:
        return _from_json(read(spark, path, format))
    rows = _from_csv(spark, path) if format is InputFormat.CSV else read(spark, path, format)
    missing = [name for name in ("id", "filter") if name not in rows.columns]
    if missing:
        found = ", ".join(rows.columns[:10])
        problem = f"Expected columns id and filter, but there is no {missing[0]} among: {found}"
        raise MissingField(InputPlace(path), problem)
    rows = rows.select([name for name in _COLUMNS if name in rows.columns])
    return SubscriptionRows(rows, spark.createDataFrame([], "id string, text string, message string"))


def _from_csv(spark: SparkSession, path: str) -> DataFrame:
    """Every column is text, whatever its cells look like. Ids are integers if all of them are."""
    texts = read_csv_texts(spark, path)
    if "id" not in texts.columns or types_of_texts(texts.select("id"))["id"] != "bigint":
        return texts
    return texts.withColumn("id", texts["id"].cast("bigint"))


def _from_json(lines: DataFrame) -> SubscriptionRows:
    """Ids are integers if all of them are, else strings; a line with an id of the other kind is refused."""
    from pyspark.sql import functions as sf

    parsed = lines.select(TEXT, sf.try_parse_json(TEXT).alias("object"))
    kinds = [sf.schema_of_variant(sf.try_variant_get("object", f"$.{name}", "variant")) for name in _FIELDS]
    parsed = parsed.select("*", *(kind.alias(name) for kind, name in zip(kinds, _FIELDS, strict=True)))
    texts = parsed.agg(sf.coalesce(sf.bool_or(sf.col("id") == "STRING"), sf.lit(False)).alias("any")).first()
    kind, type = ("STRING", "string") if texts is not None and texts["any"] else ("BIGINT", "bigint")
    absent = "Expected a subscription with id and filter, but it has no "
    message = (
        sf.when(sf.col("object").isNull(), "Expected a JSON object, but the line is not JSON or has a key twice")
        .when(sf.coalesce("id", sf.lit("VOID")) == "VOID", f"{absent}id")
        .when(sf.coalesce("filter", sf.lit("VOID")) == "VOID", f"{absent}filter")
        .when(sf.col("id") != kind, sf.concat(sf.lit(f"Expected an id of kind {type}, but got "), sf.lower("id")))
        .when(sf.col("filter") != "STRING", "Expected the text of a filter")
        .when(~sf.coalesce("dialect", sf.lit("VOID")).isin("STRING", "VOID"), "Expected the name of a dialect")
    )
    judged = parsed.select(TEXT, "object", message.alias("message"))
    fields = [sf.try_variant_get("object", "$.id", type).alias("id")]
    fields += [sf.try_variant_get("object", f"$.{name}", "string").alias(name) for name in _FIELDS[1:]]
    id = sf.try_variant_get("object", "$.id", "string").alias("id")
    refused = judged.where(sf.col("message").isNotNull()).select(id, sf.col(TEXT).alias("text"), "message")
    return SubscriptionRows(judged.where(sf.col("message").isNull()).select(*fields), refused)
