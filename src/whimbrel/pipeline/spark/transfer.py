"""Which columns of a DataFrame are handed to the workers: only what some filter mentions, as flat as it can be.

A field of a struct travels as a column of its own, named by its path: for a filter `d.x` and a field x of d are the
same, and a null struct has null fields. Lists, maps and arrays of structs travel as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from whimbrel.pipeline.errors import ColumnError
from whimbrel.pipeline.spark.packing import pack, unpack

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

READABLE = "booleans, numbers, text, timestamps, dates, lists, structs or maps with text keys"


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column, or a field below it: its attribute's `name` and the `path` to it, the number of the column first."""

    name: str
    path: tuple[int | str, ...]

    def column(self, columns: list[Column]) -> Column:
        """The leaf of columns given by number."""
        first, *rest = self.path
        assert isinstance(first, int)
        found = columns[first]
        for field in rest:
            found = found.getField(field)
        return found


@dataclass(frozen=True, slots=True)
class HandOver:
    """The leaves to hand over, and the names of columns that no filter can read, with their types.

    `packed` has the numbers of leaves that travel together, in one column of arrays.
    """

    leaves: tuple[Leaf, ...]
    refused: dict[str, str]
    packed: tuple[tuple[int, ...], ...] = ()

    def columns(self, columns: list[Column]) -> list[Column]:
        """What travels, under neutral names: single leaves first, then the packed ones."""
        from pyspark.sql import functions as f

        single = [self.leaves[number].column(columns) for number in self._single()]
        arrays = [f.array(*(self.leaves[number].column(columns) for number in group)) for group in self.packed]
        return [column.alias(f"a{at}") for at, column in enumerate([*single, *arrays])]

    def table(self, travelled: Sequence[pa.Array], rows: int) -> pa.Table:
        """The leaves of a batch, by name, as they arrive at a worker."""
        single = self._single()
        found = dict(zip(single, travelled, strict=False))
        for group, arrays in zip(self.packed, travelled[len(single) :], strict=True):
            found.update(zip(group, unpack(arrays, len(group)), strict=True))
        names = [leaf.name for leaf in self.leaves]
        columns = [found[number] for number in range(len(names))]
        return pa.Table.from_arrays([*columns, pa.nulls(rows)], [*names, ""])  # one without columns has no rows

    def _single(self) -> list[int]:
        together = {number for group in self.packed for number in group}
        return [number for number in range(len(self.leaves)) if number not in together]

    def check(self, attributes: Collection[str]) -> None:
        """ColumnError if some filter mentions a column that it cannot read."""
        wanted = _with_parents(attributes)
        for name, kind in self.refused.items():
            if name in wanted:
                raise ColumnError(name, f"a column of {READABLE}, as a filter mentions it", kind)


def hand_over(schema: StructType, attributes: Collection[str] | None) -> HandOver:
    """The columns that hold these attributes; all that can hold any where none are named."""
    wanted = None if attributes is None else _with_parents(attributes)
    leaves: list[Leaf] = []
    kinds: list[DataType] = []
    refused: dict[str, str] = {}
    for number, field in enumerate(schema.fields):
        for leaf, kind in _leaves(field.name, field.dataType, (number,)):
            if _is_readable(kind):
                if wanted is None or leaf.name in wanted:
                    leaves.append(leaf)
                    kinds.append(kind)
            else:
                refused[leaf.name] = kind.simpleString()
    found = HandOver(tuple(leaves), refused, pack(kinds))
    if attributes is not None:
        found.check(attributes)
    return found


def positional(events: DataFrame) -> tuple[DataFrame, list[Column]]:
    """The events with columns that are told apart by number: names may be equal, or differ in case only."""
    renamed = events.toDF(*(f"c{number}" for number in range(len(events.columns))))
    return renamed, [renamed[f"c{number}"] for number in range(len(events.columns))]


def _with_parents(attributes: Collection[str]) -> set[str]:
    """The attributes, and the names that they lie below."""
    out = set(attributes)
    for name in attributes:
        while "." in name:
            name = name.rpartition(".")[0]  # noqa: PLW2901 - from the leaf up
            out.add(name)
    return out


def _leaves(name: str, kind: DataType, path: tuple[int | str, ...]) -> Iterator[tuple[Leaf, DataType]]:
    from pyspark.sql.types import StructType

    if isinstance(kind, StructType) and len({field.name.lower() for field in kind.fields}) == len(kind.fields):
        for field in kind.fields:
            yield from _leaves(f"{name}.{field.name}", field.dataType, (*path, field.name))
    else:  # Spark cannot tell fields apart whose names differ in case only
        yield Leaf(name, path), kind


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
