"""Finds the columns of a table that hold the attributes of a dictionary.

A dotted name and nested fields are the same attribute, so several leaves may hold one attribute. Rare nestings, such as
lists of lists and arrays in arrays, are read event by event: these leaves are `ColumnLayout.odd`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container
from dataclasses import dataclass, field, replace

import pyarrow as pa

from whimbrel.model.errors import EventError
from whimbrel.model.limits import EVENT_DEPTH

_types = pa.types


@dataclass(frozen=True, slots=True)
class ColumnLeaf:
    """A column, or a field below one: its attribute (-1 if it has none itself), name, and path of field numbers.

    `is_time`: its texts are read as timestamps. `leaves`: the fields with attributes, if it is an array of objects.
    """

    attr: int
    name: str
    path: tuple[int, ...]
    is_time: bool = False
    leaves: tuple[ColumnLeaf, ...] = ()


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The leaves of tables of one schema, by how they are read; flat ones are in order of their attributes."""

    flat: list[ColumnLeaf] = field(default_factory=list)
    lists: list[ColumnLeaf] = field(default_factory=list)
    objects: list[ColumnLeaf] = field(default_factory=list)
    maps: list[ColumnLeaf] = field(default_factory=list)
    odd: list[ColumnLeaf] = field(default_factory=list)

    @property
    def is_flat(self) -> bool:
        """Whether no row has several values in one column."""
        return not (self.lists or self.objects or self.maps or self.odd)


def layout(
    schema: pa.Schema, find: Callable[[str], int | None], above: Container[str], timestamps: Collection[str]
) -> ColumnLayout:
    """The layout of a schema. `find` returns the number of an attribute; `above` has the names above attributes."""
    found = ColumnLayout()

    def walk(name: str, kind: pa.DataType, path: tuple[int, ...], found: ColumnLayout) -> None:
        kind = _plain(kind)
        if _types.is_struct(kind):
            if len(path) >= EVENT_DEPTH.value:
                found.odd.append(ColumnLeaf(-1, schema.names[path[0]], path[:1]))  # the reader of events refuses it
            elif name in above:
                for index, child in enumerate(kind):
                    walk(f"{name}.{child.name}", child.type, (*path, index), found)
            return
        attr = find(name)
        if not _is_nested(kind):
            if attr is not None:
                _check_scalar(kind, name)
                found.flat.append(ColumnLeaf(attr, name, path, name in timestamps))
        elif attr is not None or name in above:
            walk_members(ColumnLeaf(-1 if attr is None else attr, name, path, name in timestamps), kind, found)

    def walk_members(leaf: ColumnLeaf, kind: pa.DataType, found: ColumnLayout) -> None:
        is_map = _types.is_map(kind)
        member = _plain(kind.item_type if is_map else kind.value_type)
        if is_map and _is_text(kind.key_type) and not _is_nested(member):
            if leaf.name in above:
                found.maps.append(leaf)
        elif not is_map and _types.is_struct(member):
            inner = ColumnLayout()
            if leaf.name in above:
                for index, child in enumerate(member):
                    walk(f"{leaf.name}.{child.name}", child.type, (index,), inner)
            if inner.is_flat:
                found.objects.append(replace(leaf, leaves=tuple(inner.flat)))
            else:
                found.odd.append(leaf)
        elif is_map or _is_nested(member):
            found.odd.append(leaf)
        elif leaf.attr >= 0:
            _check_scalar(member, leaf.name)
            found.lists.append(leaf)

    for index, column in enumerate(schema):
        walk(column.name, column.type, (index,), found)
    found.flat.sort(key=lambda leaf: leaf.attr)
    return found


def leaf_array(table: pa.Table | pa.RecordBatch, leaf: ColumnLeaf) -> pa.Array:
    """The array of a leaf; a null struct makes its fields null."""
    array = table.column(leaf.path[0])
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    return field_array(storage(array), leaf.path[1:])


def field_array(array: pa.Array, path: tuple[int, ...]) -> pa.Array:
    """The array at a path of fields below structs; where a struct is null, its fields are null."""
    if not path:
        return array
    import pyarrow.compute as pc  # takes long, and most tables are flat

    for index in path:
        child = storage(array.field(index))
        if array.null_count and child.type != array.type.field(index).type:  # run-end encoded
            array = pc.if_else(array.is_valid(), child, pa.scalar(None, child.type))
        else:
            array = storage(pc.struct_field(array, [index]))
    return array


def storage(array: pa.Array) -> pa.Array:
    """The array without extension types, run-end encoding, and dictionaries of nested values."""
    while True:
        kind = array.type
        if isinstance(kind, pa.BaseExtensionType):
            import pyarrow.compute as pc

            is_bool = kind.extension_name == "arrow.bool8"
            array = pc.not_equal(array.storage, 0) if is_bool else array.storage
        elif _types.is_run_end_encoded(kind):
            import pyarrow.compute as pc

            array = pc.run_end_decode(array)
        elif _types.is_dictionary(kind) and _is_nested(_plain(kind.value_type)):
            array = array.dictionary_decode()
        else:
            return array


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type behind extension types, run-end encoding and dictionaries."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif _types.is_run_end_encoded(kind) or _types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(_types.is_string(kind) or _types.is_large_string(kind) or _types.is_string_view(kind))


def _is_nested(kind: pa.DataType) -> bool:
    return bool(_types.is_nested(kind)) and not _types.is_union(kind)


_READABLE = (
    *(_types.is_boolean, _types.is_integer, _types.is_floating, _types.is_decimal, _types.is_null),
    *(_is_text, _types.is_timestamp, _types.is_date),
)


def _check_scalar(kind: pa.DataType, name: str) -> None:
    if not any(test(kind) for test in _READABLE):
        expected = "a column of booleans, numbers, text, timestamps, lists, structs or maps"
        raise EventError(expected, str(kind), name)
