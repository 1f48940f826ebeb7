"""Casts from one Spark type to another that never change a value.

A number can be cast to a type of numbers that holds it exactly; a decimal becomes the nearest binary64, as everywhere.
Strings, dates and times without a zone can be cast to a timestamp, because the declared type says how to read them. No
other types can be cast. Values are expressions of Spark SQL that never fail.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import types as t

from whimbrel.pipeline.spark.expressions import instant, literal, try_cast

INTEGERS: dict[type[t.DataType], int] = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64}
"""Types of integers, and their bits."""
FLOATS: dict[type[t.DataType], int] = {t.FloatType: 24, t.DoubleType: 53}
"""Types of floating-point numbers, and the bits of integers that they hold exactly."""

_ISO = literal(
    r"^(\d{4}-\d\d-\d\d)"
    r"(?:[Tt ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)? ?(?:[Zz]|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)?)?$"
)
"""The forms of times in text that the semantics allow, with years of four digits, as Spark has them."""
_DATE = literal(r"^\d{4}-\d\d-\d\d$")


@dataclass(frozen=True, slots=True)
class ExactCast:
    """The value in the declared type, and a condition that says whether it is exact (None: always); never null."""

    value: str
    holds: str | None = None


def exact_cast(value: str, actual: t.DataType, declared: t.DataType) -> ExactCast | None:
    """Cast values of the actual type to the declared one; None if that is never possible."""
    if isinstance(declared, t.VarcharType | t.CharType):
        return ExactCast(value, f"length({value}) <= {declared.length}") if isinstance(actual, t.StringType) else None
    if actual == declared or (isinstance(actual, t.StringType) and isinstance(declared, t.StringType)):
        return ExactCast(value)
    if isinstance(declared, t.TimestampType) and isinstance(actual, t.StringType):
        return _timestamp_of_text(value)
    if isinstance(declared, t.TimestampType) and isinstance(actual, t.DateType | t.TimestampNTZType):
        return ExactCast(instant(value, actual))
    if isinstance(declared, t.DateType) and isinstance(actual, t.StringType):
        date = f"if({value} RLIKE {_DATE}, {try_cast(value, 'date')}, NULL)"
        return ExactCast(date, f"{date} IS NOT NULL")
    if type(declared) in INTEGERS:
        return _integer(value, actual, declared)
    if type(declared) in FLOATS:
        return _float(value, actual, declared)
    if isinstance(declared, t.DecimalType):
        return _decimal(value, actual, declared)
    return None


def is_number(kind: t.DataType) -> bool:
    """Whether values of a type are numbers."""
    return type(kind) in INTEGERS or type(kind) in FLOATS or isinstance(kind, t.DecimalType)


def _integer(value: str, actual: t.DataType, declared: t.DataType) -> ExactCast | None:
    bits = INTEGERS[type(declared)]
    converted = try_cast(value, declared.simpleString())
    if type(actual) in INTEGERS:
        return ExactCast(converted, None if INTEGERS[type(actual)] <= bits else f"{converted} IS NOT NULL")
    if type(actual) in FLOATS:  # a bound of 2 ** 63 is exact as a double, one of 2 ** 63 - 1 is not
        bound = f"{2.0 ** (bits - 1)!r}D"
        return ExactCast(converted, f"{value} >= -{bound} AND {value} < {bound} AND {value} % 1 = 0")
    if isinstance(actual, t.DecimalType):
        return ExactCast(converted, f"coalesce({converted} = {value}, FALSE)")
    return None


def _float(value: str, actual: t.DataType, declared: t.DataType) -> ExactCast | None:
    converted = try_cast(value, declared.simpleString())
    if type(actual) in INTEGERS:
        bits = INTEGERS[type(actual)]
        if bits <= FLOATS[type(declared)]:
            return ExactCast(converted)
        # The largest integer rounds up to a power of two, which a cast back would clamp to the largest integer again.
        below = f"{converted} < {2.0 ** (bits - 1)!r}D"
        return ExactCast(
            converted, f"coalesce({below} AND {try_cast(converted, actual.simpleString())} = {value}, FALSE)"
        )
    if isinstance(actual, t.FloatType | t.DecimalType):
        return ExactCast(converted)
    if isinstance(actual, t.DoubleType):
        return ExactCast(converted, f"CAST({converted} AS double) <=> {value}")
    return None


def _decimal(value: str, actual: t.DataType, declared: t.DecimalType) -> ExactCast | None:
    if not is_number(actual):
        return None
    converted = try_cast(value, declared.simpleString())
    back = f"CAST({converted} AS double)" if type(actual) in FLOATS else converted
    return ExactCast(converted, f"coalesce({back} = {value}, FALSE)")


def _timestamp_of_text(value: str) -> ExactCast:
    """The instant of a text; without a zone it is in UTC, whatever zone the session has."""

    def part(group: int, default: str) -> str:
        return f"coalesce(nullif(regexp_extract({value}, {_ISO}, {group}), ''), '{default}')"

    digits = f"rpad({part(4, '0')}, 9, '0')"
    pieces = (part(1, ""), "' '", part(2, "00:00"), "':'", part(3, "00"), "'.'", f"left({digits}, 6)", "'+00:00'")
    text = f"concat({', '.join(pieces)})"
    local = f"unix_micros({try_cast(text, 'timestamp')})"
    minutes = f"CAST({part(6, '0')} AS bigint) * 60 + CAST({part(7, '0')} AS bigint)"
    shift = f"if({part(5, '+')} = '-', -1L, 1L) * ({minutes}) * 60000000L"
    instant = f"if({value} RLIKE {_ISO}, timestamp_micros({local} - {shift}), NULL)"
    return ExactCast(instant, f"{instant} IS NOT NULL AND right({digits}, 3) = '000'")
