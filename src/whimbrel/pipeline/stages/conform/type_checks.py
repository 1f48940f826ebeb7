"""Checks of values against a declared Spark schema: the value as declared, and all reasons why it does not conform.

A check is compiled once, from the actual and the declared schema, to expressions of Spark SQL, which Spark runs on each
row. Values of a known type are checked by type, values inside JSON (a variant) by the type that each row has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from pyspark.sql import types as t

from whimbrel.pipeline.errors import ColumnError
from whimbrel.pipeline.spark.dataframes import FIELDS_DIFFER, repeated
from whimbrel.pipeline.spark.expressions import literal, name, struct, type_name, variant_field, variant_get
from whimbrel.pipeline.stages.conform.exact_cast import FLOATS, ExactCast, exact_cast, is_number
from whimbrel.pipeline.stages.conform.schema_checks import SHOWN

Unknown = Literal["keep", "drop", "report"]

_NO_REASONS = "CAST(array() AS array<struct<attribute: string, kind: string, message: string>>)"
_NO_SUCH_FIELD = "'expected no such field'"
_NESTED = (t.StructType, t.ArrayType, t.MapType)
_IN_VARIANT: tuple[tuple[str, t.DataType], ...] = (
    ("BOOLEAN", t.BooleanType()),
    ("BIGINT", t.LongType()),
    ("DOUBLE", t.DoubleType()),
    ("FLOAT", t.FloatType()),
    ("STRING", t.StringType()),
    ("BINARY", t.BinaryType()),
    ("DATE", t.DateType()),
    ("TIMESTAMP", t.TimestampType()),
    ("TIMESTAMP_NTZ", t.TimestampNTZType()),
)
"""The names of scalar types inside variants; decimals, which have a scale, are handled apart."""


@dataclass(frozen=True, slots=True)
class CheckedValue:
    """Expressions: a value in its declared type, and the reasons why it does not conform."""

    value: str
    one: list[str] = field(default_factory=list)
    """Expressions that give a reason or null."""
    many: list[str] = field(default_factory=list)
    """Expressions that give arrays of reasons."""
    fields: dict[str, str] = field(default_factory=dict)
    """The fields of a row."""

    def reasons(self) -> str:
        """All reasons, an array that is never null."""
        alone = [f"array_compact(array({', '.join(self.one)}))"] if self.one else []
        return f"concat({', '.join([_NO_REASONS, *alone, *self.many])})"


@dataclass(frozen=True, slots=True)
class ValuePlace:
    """Where a value is in a row."""

    path: str | None = None
    """An expression that gives its path; None for the whole row."""
    there: str = "TRUE"
    """A condition: whether the struct or array around it is there."""
    depth: int = 0
    """The arrays and maps around it, so that the variables of each have names of their own."""

    def child(self, key: str) -> ValuePlace:
        """The place of a field, by an expression that gives its name."""
        return ValuePlace(key if self.path is None else f"concat({self.path}, '.', {key})", self.there, self.depth)

    def member(self, key: str) -> ValuePlace:
        """The place of a member of an array or a map."""
        return ValuePlace(f"concat({self.path}, '[', {key}, ']')", "TRUE", self.depth + 1)

    def inside(self, there: str) -> ValuePlace:
        """The same place, for checks that count only if the condition holds."""
        return ValuePlace(self.path, there if self.there == "TRUE" else f"({self.there} AND {there})", self.depth)

    def reason(self, kind: str, message: str) -> str:
        """The expression of a reason at this place, with its kind and message."""
        return struct({"attribute": self.path or "''", "kind": literal(kind), "message": message})

    def first_reason(self, cases: Sequence[tuple[str, str, str]]) -> str:
        """The reason of the first case (condition, kind, message) that holds; null if none holds, or it has no kind."""
        branches = [f"WHEN {test} THEN {self.reason(kind, text) if kind else 'NULL'}" for test, kind, text in cases]
        if self.there != "TRUE":
            branches.insert(0, f"WHEN NOT ({self.there}) THEN NULL")
        return f"CASE {' '.join(branches)} END"


def check_fields(
    actual: t.StructType, values: Mapping[str, str], declared: t.StructType, unknown: Unknown, place: ValuePlace
) -> CheckedValue:
    """Check the fields of a row or struct. The value is a struct of the declared fields, then of others to keep."""
    found, one, many = dict[str, str](), list[str](), list[str]()
    for wanted in declared.fields:
        at, kind = place.child(literal(wanted.name)), wanted.dataType
        if wanted.name in values:
            checked = check(values[wanted.name], actual[wanted.name].dataType, kind, wanted.nullable, unknown, at)
            found[wanted.name] = checked.value
            one, many = one + checked.one, many + checked.many
        else:
            found[wanted.name] = _nothing(kind)
            one += [] if wanted.nullable else [at.first_reason([("TRUE", "missing", _expected(kind, "'none'"))])]
    for key, value in values.items():
        if key not in found and unknown == "keep":
            found[key] = value
        elif key not in found and unknown == "report":
            one.append(place.child(literal(key)).first_reason([(f"{value} IS NOT NULL", "unknown", _NO_SUCH_FIELD)]))
    return CheckedValue(struct(found), one, many, found)


def check(
    value: str, actual: t.DataType, declared: t.DataType, nullable: bool, unknown: Unknown, place: ValuePlace
) -> CheckedValue:
    """Check a value of the actual type against the declared type."""
    if isinstance(actual, t.VariantType) and not isinstance(declared, t.VariantType):
        return _check_variant(value, declared, nullable, unknown, place)
    # NaN is read as null.
    null = f"({value} IS NULL OR isnan({value}))" if type(actual) in FLOATS else f"{value} IS NULL"
    cases = [(null, "" if nullable else "null", _expected(declared, "'null'"))]
    inner: CheckedValue | None = None
    if isinstance(actual, t.NullType):
        inner = CheckedValue(_nothing(declared))
    elif isinstance(actual, _NESTED):
        inner = _check_nested(value, actual, declared, unknown, place.inside(f"NOT ({null})"))
    elif (cast := exact_cast(value, actual, declared)) is not None:
        inner = CheckedValue(cast.value)
        if cast.holds is not None:
            cases.append((f"NOT ({cast.holds})", "value", _cannot_hold(declared, _shown(value, actual))))
    if inner is None:
        inner = CheckedValue(_nothing(declared))
        cases.append(("TRUE", "type", _expected(declared, _shown(value, actual))))
    one = [place.first_reason(cases)] if len(cases) > 1 or not nullable else []
    return CheckedValue(inner.value, one + inner.one, inner.many)


def object_fields(value: str, declared: t.StructType) -> dict[str, str]:
    """The declared fields of a JSON object, each a variant, or null where there is none."""
    return {key: variant_field(value, key) for key in declared.names}


def object_names(value: str) -> str:
    """The names of all fields of a JSON object; null if it is none."""
    return f"map_keys({variant_get(value, 'map<string, variant>')})"


def check_parsed(
    fields: Mapping[str, str], names: str, declared: t.StructType, unknown: Unknown, place: ValuePlace
) -> CheckedValue:
    """Check a JSON object, of which the declared fields and the names of all fields were extracted before."""
    actual = t.StructType([t.StructField(key, t.VariantType()) for key in declared.names])
    checked = check_fields(actual, fields, declared, unknown, place)
    if unknown != "report":
        return checked
    others = f"array_except({names}, array({', '.join(map(literal, declared.names))}))"
    key = f"k{place.depth}"
    reasons = f"transform({others}, {key} -> {place.child(key).reason('unknown', _NO_SUCH_FIELD)})"
    return CheckedValue(checked.value, checked.one, [*checked.many, _if(place.there, reasons)], checked.fields)


def shown(text: str) -> str:
    """The beginning of a text, for a message."""
    return f"if(length({text}) > {SHOWN}, concat(left({text}, {SHOWN}), '...'), {text})"


def _check_nested(
    value: str, actual: t.DataType, declared: t.DataType, unknown: Unknown, place: ValuePlace
) -> CheckedValue | None:
    """A struct, array or map of known types; None if it is not what was declared."""
    if isinstance(actual, t.StructType) and isinstance(declared, t.StructType):
        if twice := repeated(actual.names):
            raise ColumnError(twice[0], FIELDS_DIFFER, ", ".join(twice))
        fields = {key: f"{value}.{name(key)}" for key in actual.names}
        checked = check_fields(actual, fields, declared, unknown, place)
        return CheckedValue(f"if({value} IS NULL, NULL, {checked.value})", checked.one, checked.many)
    if isinstance(actual, t.ArrayType) and isinstance(declared, t.ArrayType):
        return _members(value, actual.elementType, declared, unknown, place)
    if isinstance(actual, t.MapType) and isinstance(declared, t.MapType) and actual.keyType == declared.keyType:
        return _entries(value, actual.valueType, declared, unknown, place)
    return None


def _members(
    value: str, actual: t.DataType, declared: t.ArrayType, unknown: Unknown, place: ValuePlace
) -> CheckedValue:
    if actual == declared.elementType and declared.containsNull and not isinstance(actual, _NESTED):
        return CheckedValue(value)
    member, position = f"m{place.depth}", f"i{place.depth}"
    at = place.member(position)
    checked = check(member, actual, declared.elementType, declared.containsNull, unknown, at)
    reasons = f"flatten(transform({value}, ({member}, {position}) -> {checked.reasons()}))"
    return CheckedValue(f"transform({value}, {member} -> {checked.value})", [], [_if(place.there, reasons)])


def _entries(value: str, actual: t.DataType, declared: t.MapType, unknown: Unknown, place: ValuePlace) -> CheckedValue:
    entry, key, held = f"e{place.depth}", f"k{place.depth}", f"v{place.depth}"

    def checked(key: str, held: str) -> CheckedValue:
        return check(held, actual, declared.valueType, declared.valueContainsNull, unknown, place.member(key))

    of_entry = checked(f"{entry}.key", f"{entry}.value").reasons()
    reasons = f"flatten(transform(map_entries({value}), {entry} -> {of_entry}))"
    converted = f"transform_values({value}, ({key}, {held}) -> {checked(key, held).value})"
    return CheckedValue(converted, [], [_if(place.there, reasons)])


def _check_variant(
    value: str, declared: t.DataType, nullable: bool, unknown: Unknown, place: ValuePlace
) -> CheckedValue:
    """Check a value inside JSON, which is missing, null, or of a type that differs from row to row."""
    got = f"concat(lower(schema_of_variant({value})), ' ', {shown(f'to_json({value})')})"
    wrong_type = _expected(declared, got)
    cases = [
        (f"{value} IS NULL", "" if nullable else "missing", _expected(declared, "'none'")),
        (f"is_variant_null({value})", "" if nullable else "null", _expected(declared, "'null'")),
    ]
    if isinstance(declared, _NESTED):
        kind = "array<variant>" if isinstance(declared, t.ArrayType) else "map<string, variant>"
        inner = variant_get(value, kind)
        cases.append((f"{inner} IS NULL", "type", wrong_type))
        checked = _variant_nested(value, inner, declared, unknown, place.inside(f"{inner} IS NOT NULL"))
        return CheckedValue(checked.value, [place.first_reason(cases), *checked.one], checked.many)
    casts = _variant_casts(value, declared)
    cases += [(f"{test} AND {cast.holds or 'TRUE'}", "", "") for test, cast in casts]
    cases += [(test, "value", _cannot_hold(declared, got)) for test, cast in casts if cast.holds is not None]
    cases.append(("TRUE", "type", wrong_type))
    branches = " ".join(f"WHEN {test} THEN {cast.value}" for test, cast in casts)
    return CheckedValue(f"CASE {branches} END" if casts else _nothing(declared), [place.first_reason(cases)])


def _variant_nested(value: str, inner: str, declared: t.DataType, unknown: Unknown, place: ValuePlace) -> CheckedValue:
    if isinstance(declared, t.ArrayType):
        return _members(inner, t.VariantType(), declared, unknown, place)
    if isinstance(declared, t.MapType):
        return _entries(inner, t.VariantType(), declared, unknown, place)
    assert isinstance(declared, t.StructType)
    checked = check_parsed(object_fields(value, declared), object_names(value), declared, unknown, place)
    return CheckedValue(f"if({inner} IS NULL, NULL, {checked.value})", checked.one, checked.many)


def _variant_casts(value: str, declared: t.DataType) -> list[tuple[str, ExactCast]]:
    """For each scalar type that can be cast: a condition, whether the variant holds it, and the cast."""
    found = []
    kind = f"schema_of_variant({value})"
    for label, actual in _IN_VARIANT:
        cast = exact_cast(variant_get(value, actual.simpleString()), actual, declared)
        if cast is not None:
            found.append((f"{kind} = '{label}'", cast))
    if is_number(declared):
        found.append((f"startswith({kind}, 'DECIMAL')", _variant_decimal(value, declared)))
    return found


def _variant_decimal(value: str, declared: t.DataType) -> ExactCast:
    """A number with a point or many digits: an integer exactly, anything else as the nearest binary64."""
    nearest = variant_get(value, "double")
    if type(declared) in FLOATS:
        return ExactCast(f"try_cast({nearest} AS {type_name(declared)})")
    exact = variant_get(value, type_name(declared if isinstance(declared, t.DecimalType) else t.DecimalType(38, 0)))
    converted = f"try_cast({exact} AS {type_name(declared)})"
    return ExactCast(converted, f"coalesce(CAST({exact} AS double) = {nearest}, FALSE) AND {converted} IS NOT NULL")


def _nothing(kind: t.DataType) -> str:
    return f"CAST(NULL AS {type_name(kind)})"


def _expected(declared: t.DataType, got: str) -> str:
    return f"concat({literal(f'expected {declared.simpleString()}, but got ')}, {got})"


def _cannot_hold(declared: t.DataType, got: str) -> str:
    return f"concat({_expected(declared, got)}, ', which it cannot hold')"


def _shown(value: str, actual: t.DataType) -> str:
    kind = literal(actual.simpleString())
    if isinstance(actual, (*_NESTED, t.BinaryType, t.VariantType)):
        return kind
    quote = "\\'" if isinstance(actual, t.StringType) else ""
    return f"concat({kind}, ' {quote}', {shown(f'CAST({value} AS string)')}, '{quote}')"


def _if(there: str, reasons: str) -> str:
    return f"if({there}, coalesce({reasons}, {_NO_REASONS}), {_NO_REASONS})"
