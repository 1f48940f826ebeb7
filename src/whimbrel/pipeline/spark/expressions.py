"""Parts of Spark SQL as text: names, literals, types. A text of any size is parsed with one call into the JVM."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    DateType,
    MapType,
    StructType,
    TimestampNTZType,
    VarcharType,
)


def name(text: str) -> str:
    """A quoted name; dots in it do not separate fields."""
    return "`" + text.replace("`", "``") + "`"


def column(text: str) -> Column:
    """The column of exactly that name."""
    return sf.col(name(text))


def literal(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def type_name(kind: DataType) -> str:
    """A type as SQL writes it; texts of limited length are strings, as in every column that is computed."""
    if isinstance(kind, StructType):
        return f"struct<{', '.join(f'{name(field.name)}: {type_name(field.dataType)}' for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"array<{type_name(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"map<{type_name(kind.keyType)}, {type_name(kind.valueType)}>"
    return "string" if isinstance(kind, VarcharType | CharType) else kind.simpleString()


def struct(fields: dict[str, str]) -> str:
    """A struct of expressions by name."""
    return f"named_struct({', '.join(f'{literal(key)}, {value}' for key, value in fields.items())})"


def variant_get(value: str, kind: str, path: str = "$") -> str:
    """A part of a variant in this type; null where it is not there, or is of another type."""
    return f"try_variant_get({value}, {literal(path)}, '{kind}')"


def variant_field(value: str, key: str) -> str:
    """The field of a JSON object, as a variant; null where there is none."""
    if "'" in key and '"' in key:  # a path has no escapes
        return f"try_element_at({variant_get(value, 'map<string, variant>')}, {literal(key)})"
    quote = '"' if "'" in key else "'"
    return variant_get(value, "variant", f"$[{quote}{key}{quote}]")


def try_cast(value: str, kind: str) -> str:
    """A cast that gives null where the type cannot hold the value."""
    return f"try_cast({value} AS {kind})"


def instant(value: str, kind: DataType) -> str:
    """The timestamp of a date, of a time without a zone or of a timestamp: in UTC, whatever zone the session has."""
    if isinstance(kind, DateType):
        return f"timestamp_seconds(unix_date({value}) * 86400L)"
    if isinstance(kind, TimestampNTZType):
        return try_cast(f"concat(CAST({value} AS string), '+00:00')", "timestamp")
    return value
