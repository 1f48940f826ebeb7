"""Files that Spark reads: the format of a path, and how to read it without changing its values.

JSON lines are read as text and matched as JSON: Spark would infer types of whole columns, and one string among numbers
would turn all of them into strings. The columns of CSV are typed by the rules of `whimbrel match`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from whimbrel.readers.csv_table import BOOLEAN, INTEGER, NUMBER
from whimbrel.readers.errors import FileEmpty, FileMissing, FileUnreadable, InputPlace, WrongFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TEXT = "value"
"""The column of JSON lines, which are not parsed."""
DEFAULT_KEYS = ("event_id", "id")
"""The key of events is the first of these columns that is there, unless one is named."""
_LOCAL = "file:/"
_SCHEME = re.compile(r"[A-Za-z][\w+.-]+:/")  # of two letters or more: one letter is a drive
_LOOKED_AT = 10_000  # names of a directory by which its format is recognised
_PATTERN_SIGNS = re.compile(r"[\\{}\[\]*?]")
_CSV: dict[str, bool | str] = {
    "header": True,
    "enforceSchema": False,  # columns are found by their names
    "escape": '"',  # a quote in quotes is doubled, and a backslash is a sign like any other
    # Spark takes "" for missing if this is the empty string; no cell is a NUL.
    "nullValue": "\0",
}
_COMPRESSIONS = {".gz", ".bz2", ".zst", ".xz"}


class InputFormat(StrEnum):
    """The formats that the pipeline reads."""

    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"
    ORC = "orc"
    LOG = "whimbrel"


SUFFIXES = {
    ".parquet": InputFormat.PARQUET,
    ".json": InputFormat.JSON,
    ".jsonl": InputFormat.JSON,
    ".ndjson": InputFormat.JSON,
    ".csv": InputFormat.CSV,
    ".orc": InputFormat.ORC,
}


def is_remote(path: str) -> bool:
    """Whether the path is on another file system, which only Spark can read."""
    return _SCHEME.match(path) is not None and not path.startswith(_LOCAL)


def local(path: str) -> Path:
    """The path in the local file system, of a file: URI too."""
    return Path(unquote(urlsplit(path).path) if path.startswith(_LOCAL) else path)


def absolute(path: str) -> str:
    """The path in a form that every process of a cluster understands."""
    return path if _SCHEME.match(path) else str(Path(path).absolute())


def recognise(path: str, fallback: InputFormat | None = None, waiting: bool = False) -> InputFormat:
    """The format of a file or directory: by its name, of a directory by the names in it, else `fallback`.

    With `waiting` a directory may be empty if `fallback` is given.
    """
    format = fallback or _by_name(path)
    if is_remote(path):
        if format is None:
            raise WrongFormat(InputPlace(path), "Expected a name that tells the format, or --from")
        return format
    place = local(path)
    try:
        if not place.exists():
            raise FileMissing(InputPlace(path), "Expected a file or a directory, but there is none of that name")
        if not os.access(place, os.R_OK):
            raise FileUnreadable(InputPlace(path), "Expected a file to read, but got: Permission denied")
        if place.is_dir():
            return _of_directory(place, path, fallback, waiting)
        if place.stat().st_size == 0:
            raise FileEmpty(InputPlace(path), "Expected some content, but the file is empty")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise FileUnreadable(InputPlace(path), f"Expected a file to read, but got: {error}") from None
    return format or InputFormat.JSON


def _by_name(name: str) -> InputFormat | None:
    path = Path(name)
    if path.suffix.lower() in _COMPRESSIONS:
        path = path.with_suffix("")
    return SUFFIXES.get(path.suffix.lower())


def _of_directory(folder: Path, path: str, fallback: InputFormat | None, waiting: bool) -> InputFormat:
    from whimbrel.log.file import FILE_NAME

    if (folder / FILE_NAME).is_file():
        return InputFormat.LOG
    if fallback is not None and waiting:
        return fallback
    found: dict[InputFormat, str] = {}
    unknown: str | None = None
    for count, name in enumerate(names_below(folder)):
        format = _by_name(name)
        if format is None:
            unknown = unknown or name
        else:
            found.setdefault(format, name)
        if count == _LOOKED_AT:
            break
    if fallback is not None and (found or unknown):
        return fallback
    if len(found) > 1:
        raise WrongFormat(
            InputPlace(path), f"Expected files of one format, but got {' and '.join(sorted(found.values()))}"
        )
    if not found:
        problem = f"{unknown!r}, whose name does not tell its format (say it with --from)" if unknown else "none"
        raise FileEmpty(InputPlace(path), f"Expected files in the directory, but got {problem}")
    return next(iter(found))


def names_below(folder: Path) -> Iterator[str]:
    """The names of the files that Spark would read: it skips those that begin with a dot or an underscore."""
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        yield from (name for name in files if not name.startswith((".", "_")))


def read(spark: SparkSession, path: str, format: InputFormat) -> DataFrame:
    """Read a path as it is now, columns in their own types; JSON as lines of text in the column `value`."""
    if format is InputFormat.JSON:
        return _lines(spark.read.text(spark_path(path)))
    if format is InputFormat.CSV:
        texts = read_csv_texts(spark, path)
        return _texts_as(texts, types_of_texts(texts))
    return spark.read.format(format.value).load(absolute(path) if format is InputFormat.LOG else spark_path(path))


def read_stream(spark: SparkSession, path: str, format: InputFormat, files_at_once: int) -> DataFrame:
    """Read a path as a stream, `files_at_once` in a micro-batch. The columns are those of the files that are there."""
    if format is InputFormat.LOG:
        return spark.readStream.format(format.value).load(absolute(path))
    stream = spark.readStream.option("maxFilesPerTrigger", files_at_once)
    if format is InputFormat.JSON:
        return _lines(stream.text(spark_path(path)))
    if format is InputFormat.CSV:
        texts = read_csv_texts(spark, path)
        # A line break may be in a cell of a file that is not there yet.
        stream = stream.options(**_CSV, multiLine=True).schema(texts.schema)
        return _texts_as(stream.csv(spark_path(path)), types_of_texts(texts))
    return stream.format(format.value).schema(read(spark, path, format).schema).load(spark_path(path))


def read_csv_texts(spark: SparkSession, path: str) -> DataFrame:
    """Read the columns of CSV files as text."""
    from pyspark.sql import functions as sf

    # Spark splits a file into tasks only if no cell has a line break: no line has an odd number of quotes.
    quotes = sf.length(TEXT) - sf.length(sf.replace(TEXT, sf.lit('"'), sf.lit("")))
    is_whole = spark.read.text(spark_path(path)).where(quotes % 2 == 1).isEmpty()
    return spark.read.options(**_CSV, multiLine=not is_whole).csv(spark_path(path))


def spark_path(path: str) -> str:
    """The path for a reader of Spark, which decodes no URI and takes brackets, stars and the like for patterns."""
    if is_remote(path):
        return path
    scheme = _LOCAL.removesuffix("/") if path.startswith(_LOCAL) else ""
    return scheme + _PATTERN_SIGNS.sub(r"\\\g<0>", str(local(path).absolute()))


def _lines(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return frame.where(sf.trim(TEXT) != "")


def types_of_texts(texts: DataFrame) -> dict[str, str]:
    """The type of each column of text: the one that all of its cells are written as. One pass over the data."""
    from pyspark.sql import functions as sf

    from whimbrel.pipeline.spark.expressions import column

    tests = []
    for place, name in enumerate(texts.columns):
        cell = column(name)
        small = cell.rlike(INTEGER) & cell.try_cast("bigint").isNotNull()
        for type, test in (("bigint", small), ("double", cell.rlike(NUMBER)), ("boolean", cell.rlike(BOOLEAN))):
            tests.append(sf.bool_and(test).alias(f"{type}{place}"))
    row = texts.agg(*tests).first() if tests else None
    found: dict[str, str] = {}
    for place, name in enumerate(texts.columns):
        fitting = (type for type in ("bigint", "double", "boolean") if row is not None and row[f"{type}{place}"])
        found[name] = next(fitting, "string")
    return found


def _texts_as(texts: DataFrame, types: dict[str, str]) -> DataFrame:
    """Cast columns of text to these types."""
    from whimbrel.pipeline.spark.expressions import column

    return texts.select([column(name).cast(type).alias(name) for name, type in types.items()])


def with_keys(lines: DataFrame, text: str, key: list[str] | None, sample: DataFrame) -> DataFrame:
    """Add the keys of JSON lines, which are in the column `text`, as columns of text.

    By default the key is `event_id` or `id`, whichever the sample has.
    """
    from pyspark.sql import functions as sf

    from whimbrel.pipeline.errors import KeyMissing
    from whimbrel.pipeline.spark.expressions import variant_field, variant_get

    if key is None:
        names = sample.limit(1_000).select(sf.explode(sf.json_object_keys(TEXT)).alias("name")).distinct()
        columns = sorted(row.name for row in names.limit(1_000).collect())
        key = [name for name in DEFAULT_KEYS if name in columns][:1]
        if not key:
            raise KeyMissing(DEFAULT_KEYS, columns)
    cells = []
    for name in key:
        cell = sf.get_json_object(text, f"$['{name}']")
        if "'" in name or name == "*":  # which a path would read otherwise
            cell = sf.expr(variant_get(variant_field(f"try_parse_json({text})", name), "string"))
        cells.append(cell.alias(name))
    return lines.select(*cells, text)
