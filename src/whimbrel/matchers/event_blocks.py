"""Blocks: many events as ranks, which compiled matchers read.

The first value of every attribute is a cell of one matrix; the other values of lists, which are rare, are beside it.
Columns of an Arrow table are turned into ranks as a whole: numbers by one vectorised search, everything else once
per different value.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from whimbrel.matchers.coding import MISSING, AttributeRanks, Codes, Int32s, Int64s
from whimbrel.matchers.runs import offsets
from whimbrel.model.event import Event
from whimbrel.model.event_tables import needed_columns, read_events

if TYPE_CHECKING:
    import pyarrow as pa

_NO_STARTS = np.zeros(0, dtype=np.int64)
_NO_MORE = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class EventBlock:
    """e events over a attributes.

    `starts` is empty when no event has several values of an attribute; else the further values of attribute a in
    event e are `more[starts[i] : starts[i + 1]]` with i = e * attributes + a.
    """

    first: Int32s  # [e, a]
    starts: Int64s = field(default_factory=lambda: _NO_STARTS)
    more: Int32s = field(default_factory=lambda: _NO_MORE)

    def __len__(self) -> int:
        return len(self.first)


def event_block(codes: Codes, events: Sequence[Event]) -> EventBlock:
    """The block of some events."""
    width = len(codes.names)
    first = np.full((len(events), width), MISSING, dtype=np.int32)
    further: dict[int, list[int]] = {}
    for row, event in enumerate(events):
        for attribute, ranks in codes.event(event):
            first[row, attribute] = ranks[0]
            if len(ranks) > 1:
                further[row * width + attribute] = ranks[1:]
    if not further:
        return EventBlock(first)
    lengths = np.zeros(first.size, dtype=np.int64)
    for cell, ranks in further.items():
        lengths[cell] = len(ranks)
    return EventBlock(
        first, offsets(lengths), np.array([rank for c in sorted(further) for rank in further[c]], np.int32)
    )


def table_block(codes: Codes, table: pa.Table, timestamps: Collection[str], lists: bool) -> EventBlock | None:
    """The block of a table, or None if some column needs to be read event by event."""
    names = needed_columns(table.column_names, codes.names)
    if len(set(names)) < len(names):
        return None
    first = np.full((table.num_rows, len(codes.names)), MISSING, dtype=np.int32)
    further: dict[int, tuple[Int64s, Int32s]] = {}
    for name in names:
        column = table.column(name)
        is_list = lists and _is_list(column.type) and _is_scalar(column.type.value_type)
        if not (is_list or _is_scalar(column.type)):
            return None
        if name not in codes.numbers:
            continue  # it has no parts, so it holds no part that is mentioned
        attribute = codes.numbers[name]
        ranks = codes.ranks[attribute]
        if is_list:
            parts = [_list_ranks(ranks, name, chunk, timestamps) for chunk in column.chunks]
            lengths = np.concatenate([_NO_STARTS, *(lengths for lengths, _ in parts)])
            found = np.concatenate([_NO_MORE, *(found for _, found in parts)])
            begin = offsets(lengths)[:-1]
            first[lengths > 0, attribute] = found[begin[lengths > 0]]
            further[attribute] = (np.maximum(lengths - 1, 0), np.delete(found, begin[lengths > 0]))
        elif column.num_chunks:
            first[:, attribute] = np.concatenate([_column(ranks, name, c, timestamps) for c in column.chunks])
    return _with_lists(first, further)


def _with_lists(first: Int32s, further: dict[int, tuple[Int64s, Int32s]]) -> EventBlock:
    counts = np.zeros(first.shape, dtype=np.int64)
    for attribute, (lengths, _) in further.items():
        counts[:, attribute] = lengths
    if not counts.any():
        return EventBlock(first)
    starts = offsets(counts.ravel())
    more = np.empty(starts[-1], dtype=np.int32)
    for attribute, (lengths, found) in further.items():
        begin = starts[np.arange(len(first)) * first.shape[1] + attribute]
        more[np.repeat(begin - offsets(lengths)[:-1], lengths) + np.arange(len(found))] = found
    return EventBlock(first, starts, more)


def _column(ranks: AttributeRanks, name: str, array: pa.Array, timestamps: Collection[str]) -> Int32s:
    """The ranks of a column of scalars."""
    import pyarrow as pa

    kind, types = array.type, pa.types
    if types.is_null(kind):
        return np.full(len(array), MISSING, dtype=np.int32)
    if types.is_floating(kind) or (types.is_integer(kind) and not types.is_uint64(kind)):
        dtype = np.float64 if types.is_floating(kind) else np.int64
        present = array.is_valid().to_numpy(zero_copy_only=False)
        found = ranks.numbers(array.fill_null(0).to_numpy(zero_copy_only=False).astype(dtype))
        found[~present] = MISSING
        return found
    coded = array if types.is_dictionary(kind) else array.dictionary_encode()
    values = read_events(pa.table({name: coded.dictionary}), {name}, timestamps)
    by_code = [ranks.rank(keys[0]) if (keys := event.keys(name)) else MISSING for event in values]
    codes = coded.indices.fill_null(len(by_code)).to_numpy(zero_copy_only=False)
    out: Int32s = np.array([*by_code, MISSING], dtype=np.int32)[codes]
    return out


def _list_ranks(
    ranks: AttributeRanks, name: str, array: pa.Array, timestamps: Collection[str]
) -> tuple[Int64s, Int32s]:
    """The lengths of the lists, and the ranks of their members one after the other."""
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths, _column(ranks, name, array.flatten(), timestamps)


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_scalar(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return False
    types = pa.types
    if types.is_dictionary(kind):
        return _is_scalar(kind.value_type)
    return bool(
        types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
        or types.is_string(kind) or types.is_large_string(kind) or types.is_timestamp(kind) or types.is_date(kind)
        or types.is_null(kind)
    )  # fmt: skip
