"""Ranks columns with several values per row: lists, lists of objects, and maps.

All members are ranked as one array, and a row is a range of it. A null member of a list or a map is a value; a null
field of an object is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from pyarrow import lib

from whimbrel.model.errors import EventError
from whimbrel.ranks.column_layout import ColumnLeaf, field_array, storage
from whimbrel.ranks.columns import BAD, MISSING, NULL, rank_array
from whimbrel.ranks.kernel_arrays import ARRAY_BITS
from whimbrel.ranks.lookup import Lookup

_ELEMENTS = (1 << 31 - ARRAY_BITS) - 2
"""The highest number of an element."""
OnValues: TypeAlias = Callable[[ColumnLeaf, pa.Array, np.ndarray, np.ndarray, np.ndarray], None]
"""Called with the leaf, its values, their ranks, and where the values of each row start and end."""


class ListRanks(NamedTuple):
    """The ranks of one attribute: row r has ranks[starts[r]:ends[r]]."""

    attr: int
    ranks: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    elements: np.ndarray | None = None
    """The element of an array of objects in which each rank's value lies (`Entries.elements`), if it lies in one."""


def rank_lists(array: pa.Array, leaf: ColumnLeaf, lookup: Lookup, on_values: OnValues) -> ListRanks:
    """The ranks of a column of lists of scalars."""
    members, starts, ends = _members(array, array.values)
    ranks = np.empty(len(members), np.int32)
    rank_array(members, lookup, leaf.is_time, NULL, ranks)
    _check_times(ranks, members, starts, ends, leaf)
    on_values(leaf, members, ranks, starts, ends)
    return ListRanks(leaf.attr, ranks, starts, ends)


def rank_objects(
    array: pa.Array, leaf: ColumnLeaf, number: int, lookup: Callable[[int], Lookup], on_values: OnValues
) -> tuple[list[ListRanks], np.ndarray]:
    """The ranks of a column of arrays of objects, and a mask of the rows that have a value in some object.

    `number` is the number of this column among the arrays of objects.
    """
    members, starts, ends = _members(array, array.values)
    coupled = np.zeros(len(array), bool)
    parts: list[ListRanks] = []
    elements = ((np.arange(len(members)) % _ELEMENTS + 1) << ARRAY_BITS | number).astype(np.int32)
    for inner in leaf.leaves:
        values = field_array(members, inner.path)
        ranks = np.empty(len(values), np.int32)
        rank_array(values, lookup(inner.attr), inner.is_time, MISSING, ranks)
        _check_times(ranks, values, starts, ends, inner)
        on_values(inner, values, ranks, starts, ends)
        part = _chosen(inner.attr, ranks, ranks != MISSING, starts, ends)
        part = part._replace(elements=elements[ranks != MISSING])
        coupled |= part.ends > part.starts
        parts.append(part)
    if leaf.attr >= 0:  # a null among the objects is a null value of the array's own attribute
        nulls = np.full(len(members), NULL, np.int32)
        parts.append(_chosen(leaf.attr, nulls, np.asarray(members.is_null()), starts, ends))
    return parts, coupled


def rank_map(
    array: pa.Array,
    leaf: ColumnLeaf,
    find: Callable[[str], ColumnLeaf | None],
    lookup: Callable[[int], Lookup],
    on_values: OnValues,
) -> list[ListRanks]:
    """The ranks of a column of maps from text to scalars; `find` returns the leaf of a key."""
    keys, starts, ends = _members(array, array.keys)
    values = _takeable(_members(array, array.items)[0])
    keys = _takeable(keys).dictionary_encode()
    codes = np.asarray(keys.indices)
    order = np.argsort(codes, kind="stable")
    cuts = np.searchsorted(codes[order], np.arange(len(keys.dictionary) + 1))
    try:
        names = keys.dictionary.to_pylist()
    except UnicodeDecodeError as error:
        raise EventError("text in UTF-8", repr(error.object), leaf.name) from None
    parts: list[ListRanks] = []
    for code, name in enumerate(names):
        inner = find(f"{leaf.name}.{name}")
        if inner is None:
            continue
        places = order[cuts[code] : cuts[code + 1]]
        chosen = values.take(pa.array(places))
        ranks = np.empty(len(chosen), np.int32)
        rank_array(chosen, lookup(inner.attr), inner.is_time, NULL, ranks)
        begins, stops = np.searchsorted(places, starts), np.searchsorted(places, ends)
        begins = np.where(stops > begins, stops - 1, begins)  # if a key comes twice, its last value counts
        _check_times(ranks, chosen, begins, stops, inner)
        on_values(inner, chosen, ranks, begins, stops)
        parts.append(ListRanks(inner.attr, ranks, begins, stops))
    return parts


def _takeable(array: pa.Array) -> pa.Array:
    """The array without views, from which Arrow does not take."""
    wide = {lib.Type_STRING_VIEW: pa.large_string(), lib.Type_BINARY_VIEW: pa.large_binary()}.get(array.type.id)
    return array if wide is None else array.cast(wide)


def _members(array: pa.Array, values: pa.Array) -> tuple[pa.Array, np.ndarray, np.ndarray]:
    """The members of all lists, and where the members of each start and end; a null list has none."""
    starts, ends = _bounds(array)
    if array.null_count:
        ends = np.where(np.asarray(array.is_valid()), ends, starts)
    first = int(starts.min()) if len(starts) else 0
    last = int(ends.max(initial=first))
    return storage(values.slice(first, last - first)), starts - first, ends - first


def _bounds(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    kind = array.type
    if kind.id == lib.Type_FIXED_SIZE_LIST:
        starts = np.arange(array.offset, array.offset + len(array)) * kind.list_size
        return starts, starts + kind.list_size
    offsets = np.asarray(array.offsets).astype(np.int64)
    if kind.id in (lib.Type_LIST_VIEW, lib.Type_LARGE_LIST_VIEW):
        return offsets, offsets + np.asarray(array.sizes)
    return offsets[:-1], offsets[1:]


def _chosen(attr: int, ranks: np.ndarray, chosen: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> ListRanks:
    """The ranks of the chosen members of each row; `chosen` is a mask."""
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(chosen)])
    return ListRanks(attr, ranks[chosen], before[starts], before[ends])


def _check_times(ranks: np.ndarray, members: pa.Array, starts: np.ndarray, ends: np.ndarray, leaf: ColumnLeaf) -> None:
    """Raise EventError for the first row with a text that is no timestamp; members outside every row do not count."""
    if leaf.is_time:
        for member in np.flatnonzero(ranks == BAD).tolist():
            for row in np.flatnonzero((starts <= member) & (member < ends)).tolist():
                raise EventError("a timestamp", repr(members[member].as_py()), leaf.name, row)
