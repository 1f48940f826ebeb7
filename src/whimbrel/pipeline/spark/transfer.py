"""How columns of a DataFrame reach the Python workers: only attributes that some filter mentions, flat, and packed.

A field of a struct is sent as a column of its own, named by its path: for a filter `d.x` and a field x of d are the
same, and a null struct has null fields. Lists, maps and arrays of structs are sent as they are.

Spark converts rows cell by cell, and a cell costs less inside an array than in a column of its own. So many columns of
one type are packed into one column of arrays, and unpacked on the worker by a transposition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from whimbrel.pipeline.errors import ColumnError
from whimbrel.pipeline.spark.dataframes import repeated

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

READABLE = "booleans, numbers, text, timestamps, dates, lists, structs or maps with text keys"
FEWEST_PACKED = 16
"""Columns of a type from which packing pays."""

_PACKED_TYPES = ("smallint", "int", "bigint", "float", "double", "date", "string")


@dataclass(frozen=True, slots=True)
class FieldPath:
    """A column or a field of a struct: the `name` of its attribute, and the `path`: the column's number, then names."""

    name: str
    path: tuple[int | str, ...]

    def column(self, columns: list[Column]) -> Column:
        """The field as an expression; `columns` are the columns by number."""
        first, *rest = self.path
        assert isinstance(first, int)
        found = columns[first]
        for field in rest:
            found = found.getField(field)
        return found


@dataclass(frozen=True, slots=True)
class ColumnTransfer:
    """The columns that are sent to workers: how to select them, and how to unpack them there."""

    fields: tuple[FieldPath, ...]
    unreadable: dict[str, str]
    """Columns that no filter can read, with their types."""
    packed: tuple[tuple[int, ...], ...] = ()
    """Groups of fields, by number, that are packed into one column each."""

    def columns(self, columns: list[Column]) -> list[Column]:
        """The columns to send, named a0, a1 and so on: single fields first, then packed ones."""
        from pyspark.sql import functions as f

        single = [self.fields[number].column(columns) for number in self._single()]
        arrays = [f.array(*(self.fields[number].column(columns) for number in group)) for group in self.packed]
        return [column.alias(f"a{at}") for at, column in enumerate([*single, *arrays])]

    def table(self, received: Sequence[pa.Array], rows: int) -> pa.Table:
        """The fields by name, from the columns of a batch that came to a worker."""
        single = self._single()
        found = dict(zip(single, received, strict=False))
        for group, arrays in zip(self.packed, received[len(single) :], strict=True):
            found.update(zip(group, unpack(arrays, len(group)), strict=True))
        names = [field.name for field in self.fields]
        columns = [found[number] for number in range(len(names))]
        return pa.Table.from_arrays([*columns, pa.nulls(rows)], [*names, ""])  # a table without columns has no rows

    def _single(self) -> list[int]:
        together = {number for group in self.packed for number in group}
        return [number for number in range(len(self.fields)) if number not in together]

    def check(self, attributes: Collection[str]) -> None:
        """ColumnError if some filter mentions a column that it cannot read."""
        wanted = _with_parents(attributes)
        for name, kind in self.unreadable.items():
            if name in wanted:
                raise ColumnError(name, f"a column of {READABLE}, as a filter mentions it", kind)


def plan_transfer(schema: StructType, attributes: Collection[str] | None) -> ColumnTransfer:
    """Send the fields that hold these attributes, by default all; ColumnError if filters cannot read one of them."""
    wanted = None if attributes is None else _with_parents(attributes)
    fields: list[FieldPath] = []
    kinds: list[DataType] = []
    unreadable: dict[str, str] = {}
    for number, field in enumerate(schema.fields):
        for path, kind in _fields(field.name, field.dataType, (number,)):
            if _is_readable(kind):
                if wanted is None or path.name in wanted:
                    fields.append(path)
                    kinds.append(kind)
            else:
                unreadable[path.name] = kind.simpleString()
    found = ColumnTransfer(tuple(fields), unreadable, _pack(kinds))
    if attributes is not None:
        found.check(attributes)
    return found


def _pack(kinds: Sequence[DataType]) -> tuple[tuple[int, ...], ...]:
    """Group columns of the same type that are to be packed."""
    by_kind: dict[str, list[int]] = {}
    for number, kind in enumerate(kinds):
        by_kind.setdefault(kind.simpleString(), []).append(number)
    return tuple(
        tuple(found) for kind, found in by_kind.items() if kind in _PACKED_TYPES and len(found) >= FEWEST_PACKED
    )


def unpack(packed: pa.ListArray, width: int) -> list[pa.Array]:
    """The `width` columns of packed arrays, which all have that length."""
    rows, values = len(packed), packed.flatten()
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        turned = values.take(pa.array(np.arange(rows * width).reshape(rows, width).T.reshape(-1)))
        return [turned.slice(number * rows, rows) for number in range(width)]
    size = values.type.bit_width // 8
    cells = np.frombuffer(values.buffers()[1], f"u{size}", rows * width, values.offset * size).reshape(rows, width)
    columns = np.ascontiguousarray(cells.T)
    bitmaps: list[pa.Buffer | None] = [None] * width
    if values.null_count:
        bits = np.unpackbits(np.frombuffer(values.buffers()[0], np.uint8), bitorder="little")
        valid = bits[values.offset : values.offset + rows * width].reshape(rows, width)
        packed_bits = np.ascontiguousarray(np.packbits(valid.T, axis=1, bitorder="little"))
        bitmaps = [pa.py_buffer(bitmap) for bitmap in packed_bits]
    return [
        pa.Array.from_buffers(values.type, rows, [bitmap, pa.py_buffer(column)])
        for bitmap, column in zip(bitmaps, columns, strict=True)
    ]


def _with_parents(attributes: Collection[str]) -> set[str]:
    """The attributes and all prefixes of their paths."""
    out = set(attributes)
    for name in attributes:
        while "." in name:
            name = name.rpartition(".")[0]  # noqa: PLW2901 - from the leaf up
            out.add(name)
    return out


def _fields(name: str, kind: DataType, path: tuple[int | str, ...]) -> Iterator[tuple[FieldPath, DataType]]:
    """The fields of a struct, and of structs in it; anything else is one field."""
    from pyspark.sql.types import StructType

    if isinstance(kind, StructType) and not repeated(kind.names):
        for field in kind.fields:
            yield from _fields(f"{name}.{field.name}", field.dataType, (*path, field.name))
    else:  # Spark cannot tell fields apart whose names differ in case only
        yield FieldPath(name, path), kind


def _is_readable(kind: DataType) -> bool:
    from pyspark.sql import types as t

    if isinstance(kind, t.ArrayType):
        return _is_readable(kind.elementType)
    if isinstance(kind, t.MapType):
        return isinstance(kind.keyType, t.StringType) and _is_readable(kind.valueType)
    if isinstance(kind, t.StructType):
        return all(_is_readable(field.dataType) for field in kind.fields)
    plain = (t.BooleanType, t.NumericType, t.StringType, t.TimestampType, t.TimestampNTZType, t.DateType, t.NullType)
    return isinstance(kind, plain)
