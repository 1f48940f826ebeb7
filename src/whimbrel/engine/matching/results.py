"""Makes results of the rows that segments find: drops dead rows, verifies doubtful ones, and merges segments.

A result is `offsets` and `rows`: event e has rows[offsets[e]:offsets[e + 1]]. A row is doubtful if ranks do not decide
it; then its filter is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from whimbrel.compiled.array_types import Int64s, Integers
from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.shared.packing import ROW_MASK, VERIFY_BIT
from whimbrel.engine.ids.id_table import IdTable
from whimbrel.engine.live.head import EVALUATE_IN_BATCH_NS, EVALUATE_NS
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.matching.array_rows import is_in, linked_rows, rows_within
from whimbrel.engine.matching.element_checks import FAILS, UNSURE, CoupledEntries, element_checks
from whimbrel.model.errors import LimitExceeded, RowError
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.filter import Filter
from whimbrel.ranks.arrow import numbers
from whimbrel.ranks.encoding.encoded_events import EncodedEvents
from whimbrel.ranks.encoding.object_batches import Refused
from whimbrel.ranks.patterns.event_fragments import SEVERAL

Result: TypeAlias = tuple[np.ndarray, np.ndarray]


class FiltersByRow(Protocol):
    """The filters of rows."""

    def filter(self, row: int) -> Filter:
        """The filter of a row."""

    def verify(self, row: int, event: Event) -> bool:
        """Whether the filter of a row matches an event."""


MOST_DOUBTFUL = 64
"""Filters of the head that are evaluated for a unit, at most: more would cost as much as making the head a segment."""
_NO_ROWS = np.empty(0, np.int32)
_STRING_IDS = pa.dictionary(pa.int32(), pa.string())


def kept_rows(
    snapshot: Snapshot,
    segment: Segment,
    result: Result,
    encoded: EncodedEvents,
    events: Callable[[Sequence[int]], Sequence[Event]],
    filters: FiltersByRow,
    refused: Refused,
) -> np.ndarray:
    """Drop dead rows and rows that fail verification from what a segment found; return the others without flags.

    Verified are rows with VERIFY_BIT and, for coupled events, rows that compare two attributes. Rows that must hold for
    one element of an array are decided by their checks, or verified. `events` reads the events of ascending numbers.
    Events whose verification would take too many steps are put into `refused`. Changes the offsets of the result in
    place, and may change its rows.
    """
    offsets = result[0]
    rows = snapshot.living(*result)
    coupled, arrays = encoded.coupled, encoded.arrays
    is_coupled = bool(coupled.any())
    if not (is_coupled or segment.meta.verified):
        return rows
    doubtful = (rows & np.int32(VERIFY_BIT)) != 0
    failed: np.ndarray | None = None
    if is_coupled:
        marks = np.repeat(coupled[: len(offsets) - 1], np.diff(offsets))
        doubtful |= marks != 0 if arrays is None else (marks & SEVERAL) != 0
        if segment.meta.links:
            asked = np.flatnonzero(marks)
            doubtful[asked] |= is_in(rows[asked] & np.int32(ROW_MASK), linked_rows(segment))
        if arrays:
            asked = np.flatnonzero((marks != 0) & ~doubtful)
            asked = asked[is_in(rows[asked] & np.int32(ROW_MASK), rows_within(segment, arrays))]
            failed = _by_elements(segment, offsets, rows, asked, encoded, filters, doubtful)
    return _verified(offsets, rows, doubtful, events, filters, refused, failed)


def _by_elements(
    segment: Segment,
    offsets: np.ndarray,
    rows: np.ndarray,
    asked: np.ndarray,
    encoded: EncodedEvents,
    filters: FiltersByRow,
    doubtful: np.ndarray,
) -> np.ndarray:
    """Return the places of `asked` whose rows hold for no element of an array; mark in `doubtful` those to verify."""
    if encoded.elements is None or not len(asked):
        doubtful[asked] = True
        return asked[:0]
    entries = CoupledEntries(encoded.offsets, encoded.attrs, encoded.ranks, encoded.elements())
    of_event = np.searchsorted(offsets, asked, "right") - 1
    found = element_checks(segment).decide(of_event, (rows[asked] & ROW_MASK).tolist(), entries, filters.filter)
    doubtful[asked[found == UNSURE]] = True
    failed: np.ndarray = asked[found == FAILS]
    return failed


def kept_head_rows(
    snapshot: Snapshot,
    result: Result,
    events: Callable[[Sequence[int]], Sequence[Event]],
    filters: FiltersByRow,
    refused: Refused,
) -> np.ndarray | None:
    """Do what `kept_rows` does for rows of the head; None if too many of them must be verified."""
    rows = snapshot.living(*result)
    doubtful = (rows & np.int32(VERIFY_BIT)) != 0
    count = int(np.count_nonzero(doubtful))
    if count > MOST_DOUBTFUL:
        return None
    snapshot.head.spent += count * EVALUATE_IN_BATCH_NS
    return _verified(result[0], rows, doubtful, events, filters, refused)


def _verified(
    offsets: np.ndarray,
    rows: np.ndarray,
    doubtful: np.ndarray,
    events: Callable[[Sequence[int]], Sequence[Event]],
    filters: FiltersByRow,
    refused: Refused,
    failed: np.ndarray | None = None,
) -> np.ndarray:
    """Drop rows at the places `failed` and doubtful rows whose filter does not match; fit offsets; clear flags."""
    rows = rows & np.int32(ROW_MASK)
    asked = np.flatnonzero(doubtful)
    of_event = np.searchsorted(offsets, asked, "right") - 1
    if refused:  # their rows are left out later
        is_good = ~np.isin(of_event, list(refused))
        asked, of_event = asked[is_good], of_event[is_good]
    keep = np.ones(len(rows), bool)
    if failed is not None:
        keep[failed] = False
    if len(asked):
        keep[asked] = _verify_rows(rows[asked], of_event, events, filters, refused)
    elif failed is None or not len(failed):
        return rows
    offsets[:] = np.concatenate([np.zeros(1, np.int64), np.cumsum(keep)])[offsets]
    kept: np.ndarray = rows[keep]
    return kept


def _verify_rows(
    rows: np.ndarray,
    of_event: np.ndarray,
    events: Callable[[Sequence[int]], Sequence[Event]],
    filters: FiltersByRow,
    refused: Refused,
) -> list[bool]:
    """Whether the filter of each row matches its event.

    Events that take too many steps are put into `refused`, and those that are bad where this segment does not look.
    """
    numbers = np.unique(of_event).tolist()
    try:
        read = dict(zip(numbers, events(numbers), strict=True))
    except RowError:
        read = {}
        for number in numbers:
            try:
                (read[number],) = events([number])
            except RowError as error:
                refused.setdefault(number, error)

    def holds(row: int, number: int) -> bool:
        try:
            return number in read and filters.verify(row, read[number])
        except LimitExceeded as error:
            refused.setdefault(number, error)
            return False

    return list(map(holds, rows.tolist(), of_event.tolist()))


def are_coupled(segment: Segment, encoded: EncodedEvents) -> bool:
    """Whether arrays or several values of an event may leave some row of the segment undecided by ranks."""
    if not encoded.coupled.any():
        return False
    if encoded.arrays is None or segment.meta.links or (encoded.coupled & SEVERAL).any():
        return True
    return bool(len(rows_within(segment, encoded.arrays)))


def kept_rows_of_one(
    snapshot: Snapshot,
    segment: Segment,
    rows: np.ndarray,
    coupled: int,
    arrays: Collection[str] | None,
    event: AnyEvent,
    timestamps: frozenset[str],
    filters: FiltersByRow,
    entries: Callable[[], CoupledEntries | None],
) -> np.ndarray:
    """Do what `kept_rows` does for one event; `entries` returns its entries if they know the elements of values."""
    if snapshot.died is not None:
        rows = snapshot.living(np.array((0, len(rows)), np.int64), rows)
    if not len(rows):
        return rows
    within = _NO_ROWS if not coupled or not arrays else rows_within(segment, arrays)
    linked = linked_rows(segment) if coupled and segment.meta.links else _NO_ROWS
    is_whole = coupled & SEVERAL or (coupled and arrays is None)
    if not (is_whole or segment.meta.verified or len(within) or len(linked)):
        return rows
    plain: np.ndarray = rows & np.int32(ROW_MASK)
    if is_whole:
        return _verified_one(plain, range(len(rows)), event, timestamps, filters)
    doubtful = plain != rows
    if len(linked):
        doubtful |= is_in(plain, linked)
    asked = (is_in(plain, within) & ~doubtful).nonzero()[0] if len(within) else _NO_ROWS
    if len(asked):
        known = entries()
        if known is None:
            doubtful[asked] = True
        else:
            found = element_checks(segment).decide([0] * len(asked), plain[asked].tolist(), known, filters.filter)
            doubtful[asked[found == UNSURE]] = True
            is_kept = np.ones(len(plain), bool)
            is_kept[asked[found == FAILS]] = False
            plain, doubtful = plain[is_kept], doubtful[is_kept]
    return _verified_one(plain, doubtful.nonzero()[0].tolist(), event, timestamps, filters)


def kept_head_rows_of_one(
    snapshot: Snapshot,
    rows: np.ndarray,
    coupled: int,
    event: AnyEvent,
    timestamps: frozenset[str],
    filters: FiltersByRow,
) -> np.ndarray:
    """Do what `kept_head_rows` does for one event."""
    rows = snapshot.living(np.array((0, len(rows)), np.int64), rows)
    plain: np.ndarray = rows & np.int32(ROW_MASK)
    asked = range(len(rows)) if coupled else (plain != rows).nonzero()[0].tolist()
    snapshot.head.spent += len(asked) * EVALUATE_NS
    return _verified_one(plain, asked, event, timestamps, filters)


def _verified_one(
    plain: np.ndarray, asked: Sequence[int], event: AnyEvent, timestamps: frozenset[str], filters: FiltersByRow
) -> np.ndarray:
    """Evaluate the filters of the rows at the places `asked`; return the rows without those that do not match."""
    if not asked:
        return plain
    whole = Event.of(event, timestamps)
    failed = [place for place in asked if not filters.verify(plain.item(place), whole)]
    return np.delete(plain, failed) if failed else plain


def without_refused(refused: Refused, result: Result) -> Result:
    """The result with no rows for refused events; these keep their numbers."""
    offsets, rows = result
    sizes = np.diff(offsets)
    keep = np.ones(len(sizes), bool)
    keep[list(refused)] = False
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes * keep)]), rows[np.repeat(keep, sizes)]


def merged(results: Sequence[Result], offsets: np.ndarray) -> Result:
    """Merge the results of several segments; `offsets` is the sum of their offsets."""
    if len(results) == 1:
        return results[0]
    out = np.empty(int(offsets[-1]), np.int32)
    fill = offsets[:-1].copy()
    for its_offsets, rows in results:
        interleave(its_offsets, rows, fill, out)
    return offsets, out


@kernel
def interleave(offsets: Int64s, rows: Integers, fill: Int64s, out: Integers) -> None:
    """Write the rows of each event to `out` at `fill`, and move `fill` behind them."""
    for e in range(fill.size):
        at = fill[e]
        for i in range(offsets[e], offsets[e + 1]):
            out[at] = rows[i]
            at += 1
        fill[e] = at


def pairs_table(blocks: Iterable[Result], ids: IdTable) -> pa.Table:
    """All pairs as a table of event number and subscription id; string ids are dictionary-encoded."""
    events: list[np.ndarray] = []
    names: list[np.ndarray] = []
    first = 0
    as_numbers = ids.kind != "string"
    for offsets, rows in blocks:
        count = len(offsets) - 1
        events.append(np.repeat(np.arange(first, first + count, dtype=np.int64), np.diff(offsets)))
        names.append(np.asarray(ids.names(rows)) if as_numbers and len(rows) else rows.astype(np.int64))
        first += count
    schema = pa.schema({"event": pa.int64(), "subscription": pa.int64() if as_numbers else _STRING_IDS})
    if as_numbers:
        chunks = [pa.record_batch([numbers(e), numbers(n)], schema) for e, n in zip(events, names, strict=True)]
        return pa.Table.from_batches(chunks, schema)
    return _with_string_ids(events, names, ids, schema)


def _with_string_ids(events: list[np.ndarray], rows: list[np.ndarray], ids: IdTable, schema: pa.Schema) -> pa.Table:
    """The table of pairs, with one dictionary of the ids that occur, in order of their rows."""
    occurs = np.zeros(ids.rows, bool)
    for one in rows:
        occurs[one] = True
    used = np.flatnonzero(occurs).astype(np.int32)  # as other rows are, so that naming them is compiled once
    number = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    texts = pa.array(ids.name_list(used), pa.string())
    chunks = [
        pa.record_batch([numbers(e), pa.DictionaryArray.from_arrays(numbers(number[r]), texts)], schema)
        for e, r in zip(events, rows, strict=True)
    ]
    return pa.Table.from_batches(chunks, schema)
