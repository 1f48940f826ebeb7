"""Which columns of a table hold which attributes of a segment.

A dotted name and nested fields are the same attribute, so an attribute may lie in several leaves. What is rare and
hard (arrays of objects, maps, lists of lists) is left to the plain reader of events: those leaves are `Layout.odd`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from whimbrel.model.errors import EventError
from whimbrel.model.limits import EVENT_DEPTH

_types = pa.types


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column, or a field below it, that holds one attribute (several if it is odd: then `attr` is -1).

    `is_time`: its texts are read as timestamps.
    """

    attr: int
    name: str
    path: tuple[int, ...]
    is_time: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the attributes of a segment lie in tables of one schema, in order of attributes."""

    flat: list[Leaf] = field(default_factory=list)
    lists: list[Leaf] = field(default_factory=list)
    odd: list[Leaf] = field(default_factory=list)


def layout(
    schema: pa.Schema, find: Callable[[str], int | None], above: Container[str], timestamps: Collection[str]
) -> Layout:
    """The layout of a schema: `find` gives an attribute's id, `above` has the names that attributes lie below."""
    found = Layout()

    def walk(name: str, kind: pa.DataType, path: tuple[int, ...]) -> None:
        kind = _plain(kind)
        if _types.is_struct(kind):
            if len(path) >= EVENT_DEPTH.value:
                found.odd.append(Leaf(-1, schema.names[path[0]], path[:1]))  # the reader refuses it, if it is there
            elif name in above:
                for index, child in enumerate(kind):
                    walk(f"{name}.{child.name}", child.type, (*path, index))
            return
        attr = find(name)
        leaves = found.flat
        if _is_nested(kind):
            if attr is None and name not in above:
                return
            if _types.is_map(kind) or _is_nested(_plain(kind.value_type)):
                found.odd.append(Leaf(-1, name, path))
                return
            kind, leaves = _plain(kind.value_type), found.lists
        if attr is not None:
            _check_scalar(kind, name)
            leaves.append(Leaf(attr, name, path, name in timestamps))

    for index, column in enumerate(schema):
        walk(column.name, column.type, (index,))
    found.flat.sort(key=lambda leaf: leaf.attr)
    found.lists.sort(key=lambda leaf: leaf.attr)
    return found


def leaf_array(table: pa.Table | pa.RecordBatch, leaf: Leaf) -> pa.Array:
    """The array of a leaf; a null struct makes its fields null."""
    array = table.column(leaf.path[0])
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    array = storage(array)
    for index in leaf.path[1:]:
        array = storage(pc.struct_field(array, [index]))
    return array


def storage(array: pa.Array) -> pa.Array:
    """Without extension types, runs, and dictionaries of nested values."""
    while True:
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            is_bool = kind.extension_name == "arrow.bool8"
            array = pc.not_equal(array.storage, 0) if is_bool else array.storage
        elif _types.is_run_end_encoded(kind):
            array = pc.run_end_decode(array)
        elif _types.is_dictionary(kind) and _is_nested(_plain(kind.value_type)):
            array = array.dictionary_decode()
        else:
            return array


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type behind extension types, runs and dictionaries."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif _types.is_run_end_encoded(kind) or _types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


def _is_nested(kind: pa.DataType) -> bool:
    return bool(_types.is_nested(kind)) and not _types.is_union(kind)


_READABLE = (
    *(_types.is_boolean, _types.is_integer, _types.is_floating, _types.is_decimal, _types.is_null),
    *(_types.is_string, _types.is_large_string, _types.is_string_view, _types.is_timestamp, _types.is_date),
)


def _check_scalar(kind: pa.DataType, name: str) -> None:
    if not any(test(kind) for test in _READABLE):
        expected = "a column of booleans, numbers, text, timestamps, lists, structs or maps"
        raise EventError(expected, str(kind), name)
