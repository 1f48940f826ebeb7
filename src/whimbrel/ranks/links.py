"""Comparisons of two attributes (links): each pair that filters compare becomes a derived attribute.

Its value in an event is the outcome of the comparison: LESS, EQUAL or GREATER; SAME for equal booleans, which have no
order; DIFFERENT for unequal booleans and for values of different types. So `a < b` is an item like any other. It
decides only if both attributes have a single value. If one has several, the derived attribute has all five values, and
the event gets the mark LINKED: filters with links are then evaluated.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from whimbrel.compiled.array_types import ByteMatrix, Bytes, Floats, Int32Matrix, Int32s, Int64s
from whimbrel.compiled.jit import helper, kernel, quick_kernel
from whimbrel.compiled.views import read_only, tuple_of_arrays, view, words_of
from whimbrel.model.event import Event
from whimbrel.model.expression import Comparison
from whimbrel.model.intervals import IntervalSet
from whimbrel.model.values import BOOLEAN, NUMBER, STRING, TIMESTAMP, SortKey
from whimbrel.ranks.cells import DROPPED_BITS, RANK, boxed
from whimbrel.ranks.column_layout import ColumnLayout, ColumnLeaf
from whimbrel.ranks.columns import column_values
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.kernel_arrays import ENTRIES, ENTRIES_AT, TEXTS, Entries
from whimbrel.ranks.list_columns import ListRanks

LINKED = 4
"""The mark of an event with several values of a compared attribute."""
LESS, EQUAL, GREATER, DIFFERENT, SAME = 0, 1, 2, 3, 4
_VALUES = 5
_NOTHING, _SEVERAL, _UNKNOWN = 5, 6, 7
"""In place of an outcome: an attribute has no value; one has several; Python must compare the values."""

SEVERAL_LINKED = 1 << 40
"""Added to a number of entries: the event gets the mark LINKED."""


class LinkArrays(NamedTuple):
    """The compared pairs as arrays."""

    links: Int32Matrix  # [n, 3]: the derived attribute, and the two
    ranks: Int32Matrix  # [n, 5]: the ranks of the values of the derived attribute
    bases: Int32Matrix  # [A, 5]: where the ranks of each type begin


LINKS = tuple_of_arrays(LinkArrays, False)
_entries, _links = view(ENTRIES), view(LINKS)

Texts = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The entries of texts, ascending; where each text ends, after a 0; and their bytes."""

HOLDS: dict[Comparison, tuple[int, ...]] = {
    "=": (EQUAL, SAME), "!=": (LESS, GREATER, DIFFERENT), "<": (LESS,), "<=": (LESS, EQUAL), ">": (GREATER,),
    ">=": (EQUAL, GREATER),
}  # fmt: skip
"""The values of the derived attribute for which a comparison holds."""
ALL_ORDERS = IntervalSet.points((NUMBER, value) for value in range(_VALUES))
"""All values of a derived attribute."""


def link_values(op: Comparison) -> IntervalSet:
    """The values of the derived attribute for which a comparison holds."""
    return IntervalSet.points((NUMBER, value) for value in HOLDS[op])


class EventLinks:
    """The compared pairs of a dictionary. Safe to use from many threads."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._links = np.array(dictionary.meta.links, np.int32).reshape(-1, 3)
        self._names = [(dictionary.names[left], dictionary.names[right]) for _, left, right in dictionary.meta.links]
        lookups = map(dictionary.lookup, self._links[:, 0].tolist())
        self._ranks = np.array([[its.rank_number(value) for value in range(_VALUES)] for its in lookups], np.int32)
        self._arrays = LinkArrays(*map(read_only, (self._links, self._ranks, dictionary.rank_base)))
        self._words = np.array(words_of(LINKS, self._arrays), np.int64)
        self.names = frozenset(name for pair in self._names for name in pair)
        """The attributes that are compared."""

    def append(self, event: Event, attrs: array[int], cells: list[float]) -> int:
        """Append the entries of one event; return its mark."""
        mark = 0
        compared = zip(self._links.tolist(), self._ranks.tolist(), self._compared(event), strict=True)
        for (attr, _, _), ranks, code in compared:
            if code < _VALUES:
                attrs.append(attr)
                cells.append(boxed(ranks[code]))
            elif code == _SEVERAL:
                attrs.extend([attr] * _VALUES)
                cells += map(boxed, ranks)
                mark = LINKED
        return mark

    def append_read(self, words: np.ndarray, count: int, texts: int) -> int:
        """Append comparisons to the first `count` entries of an event that a kernel has read, `texts` of them texts.

        The entries are among the `words`. Returns the number of entries, with `SEVERAL_LINKED` added if the event gets
        the mark, or -1 if `append` must be called instead.
        """
        return append_links(words, self._words, count, texts)

    def parts(
        self,
        attrs: np.ndarray,
        cells: np.ndarray,
        ends: np.ndarray,
        texts: Texts,
        marks: np.ndarray,
        read: Callable[[int], Event],
        is_done: np.ndarray | None = None,
    ) -> list[ListRanks]:
        """The ranks of comparisons for events that a kernel has read; the entries of event e end at ends[e + 1].

        Marks events with several values in `marks`. `read` reads the event of a number. Events that are done get none.
        """
        codes = np.empty((len(self._links), len(ends) - 1), np.uint8)
        of_entry, text_ends, data = map(read_only, texts)
        links, _, bases = self._arrays
        compare_entries(attrs, cells, cells.view(np.int64), ends, of_entry, text_ends, data, links, bases, codes)
        if is_done is not None:
            codes[:, is_done] = _NOTHING
        for row in np.flatnonzero((codes == _UNKNOWN).any(axis=0)).tolist():
            codes[:, row] = self._compared(read(row))
        is_compared = (codes != _NOTHING).any(axis=1)
        return [self._part(number, codes[number], marks) for number in np.flatnonzero(is_compared).tolist()]

    def table_parts(
        self,
        columns: Sequence[tuple[ColumnLeaf, pa.Array, np.ndarray]],
        found: ColumnLayout,
        marks: np.ndarray,
        events: Callable[[Collection[str]], Iterable[Event]],
    ) -> list[ListRanks]:
        """The ranks of comparisons for the rows of a table, given its flat columns and their ranks.

        Marks rows with several values in `marks`. `events` reads the rows as events with some attributes.
        """
        several = [*found.lists, *found.objects, *found.maps]
        parts = []
        for number, names in enumerate(self._names):
            left, right = ([own for own in columns if own[0].attr == attr] for attr in self._links[number, 1:])
            codes = None
            if len(left) <= 1 and len(right) <= 1 and not any(_is_below(names, leaf) for leaf in several):
                if not left or not right:
                    continue
                codes = _compare_columns(left[0], right[0])
            if codes is None:
                codes = np.array([_compare(names, event) for event in events(names)], np.uint8)
            parts.append(self._part(number, codes, marks))
        return parts

    def are_below(self, leaves: Sequence[ColumnLeaf]) -> bool:
        """Whether some leaf, or an attribute below it, is compared."""
        return any(_is_below(names, leaf) for leaf in leaves for names in self._names)

    def _compared(self, event: Event) -> list[int]:
        return [_compare(names, event) for names in self._names]

    def _part(self, number: int, codes: np.ndarray, marks: np.ndarray) -> ListRanks:
        """The rank of the outcome if both attributes have one value, all five ranks if one has several, by event."""
        several = codes == _SEVERAL
        marks[several] |= LINKED
        starts = np.where(codes < _VALUES, codes, 0).astype(np.int64)
        ends = starts + (codes < _VALUES) + _VALUES * several
        return ListRanks(int(self._links[number, 0]), self._ranks[number], starts, ends)


def _is_below(names: tuple[str, str], leaf: ColumnLeaf) -> bool:
    return any(name == leaf.name or name.startswith(f"{leaf.name}.") for name in names)


def _compare(names: tuple[str, str], event: Event) -> int:
    """How the values of two attributes compare."""
    left, right = ([key for key in event.keys(name) if key[0] >= 0] for name in names)
    if not left or not right:
        return _NOTHING
    return _SEVERAL if len(left) > 1 or len(right) > 1 else _compare_values(left[0], right[0])


def _compare_values(left: SortKey, right: SortKey) -> int:
    if left == right:
        return SAME if left[0] == BOOLEAN else EQUAL
    if left[0] != right[0] or left[0] == BOOLEAN:
        return DIFFERENT
    return LESS if left < right else GREATER


def _compare_columns(
    left: tuple[ColumnLeaf, pa.Array, np.ndarray], right: tuple[ColumnLeaf, pa.Array, np.ndarray]
) -> np.ndarray | None:
    """How two flat columns compare, row by row; None if Python must do it."""
    one, two = column_values(left[1], left[0].is_time), column_values(right[1], right[0].is_time)
    if one is None or two is None:
        return None
    if one[0] != two[0]:
        codes = np.full(len(left[2]), DIFFERENT, np.uint8)
    elif one[0] == BOOLEAN:
        codes = np.where(one[1] == two[1], SAME, DIFFERENT).astype(np.uint8)
    else:
        is_less, is_greater = _order(one[1], two[1])
        codes = np.uint8(EQUAL) + is_greater - is_less
    codes[(left[2] < 0) | (right[2] < 0)] = _NOTHING
    return codes


def _order(one: np.ndarray | pa.Array, two: np.ndarray | pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Masks, as uint8, of the rows where `one` is less and where it is greater; numbers compare by exact value."""
    if isinstance(one, pa.Array):
        import pyarrow.compute as pc

        is_less, is_greater = (np.asarray(test(one, two).fill_null(False)) for test in (pc.less, pc.greater))
    elif one.dtype == two.dtype:
        is_less, is_greater = one < two, one > two
    elif one.dtype.kind == "f":
        is_greater, is_less = _order(two, one)
    else:
        inside = (two >= -(2.0**63)) & (two < 2.0**63)
        whole = np.floor(np.where(inside, two, 0.0))
        floor = whole.astype(np.int64)
        is_less = np.where(inside, (one < floor) | ((one == floor) & (whole < two)), two > 0)
        is_greater = np.where(inside, one > floor, two < 0)
    return is_less.astype(np.uint8), is_greater.astype(np.uint8)


def kept_texts(entries: Entries) -> Texts:
    """The texts that a kernel has kept."""
    count = entries.items.item(TEXTS)
    return entries.text_entries[:count], entries.text_ends, entries.text_data


@quick_kernel
def append_links(words: Int64s, link_words: Int64s, count: int, texts: int) -> int:
    """Append how each pair compares to the entries of one event. Returns what `EventLinks.append_read` does."""
    entries, arrays = _entries(words, ENTRIES_AT), _links(link_words, 0)
    pairs = arrays.links.shape[0]
    codes = np.empty((pairs, 1), np.uint8)
    ends = np.empty(2, np.int64)
    ends[0], ends[1] = 0, count
    _compare_events(
        entries.attrs, entries.cells, entries.bits, ends, entries.text_entries, texts, entries.text_ends,
        entries.text_data, arrays.links, arrays.bases, codes,
    )  # fmt: skip
    mark = 0
    for pair in range(pairs):
        code = np.int64(codes[pair, 0])
        if code == _UNKNOWN:
            return -1
        first, last = (np.int64(0), np.int64(_VALUES)) if code == _SEVERAL else (code, code + (code < _VALUES))
        mark = SEVERAL_LINKED if code == _SEVERAL else mark
        if count + last - first > entries.attrs.size:
            return -1
        for value in range(first, last):
            entries.attrs[count], entries.elements[count] = arrays.links[pair, 0], 0
            entries.bits[count] = RANK | np.int64(arrays.ranks[pair, value])
            count += 1
    return count + mark


@kernel
def compare_entries(
    attrs: Int32s, cells: Floats, bits: Int64s, ends: Int64s, text_entries: Int64s,
    text_ends: Int64s, text_data: Bytes, links: Int32Matrix, bases: Int32Matrix, codes: ByteMatrix,
) -> None:  # fmt: skip
    """Write to codes[pair, event] how each pair compares in each event.

    The entries of event e end at ends[e + 1]; entry text_entries[i] has the text that ends at text_ends[i + 1].
    """
    _compare_events(
        attrs, cells, bits, ends, text_entries, text_entries.size, text_ends, text_data, links, bases, codes
    )


@helper
def _compare_events(
    attrs: Int32s, cells: Floats, bits: Int64s, ends: Int64s, text_entries: Int64s, texts: int,
    text_ends: Int64s, text_data: Bytes, links: Int32Matrix, bases: Int32Matrix, codes: ByteMatrix,
) -> None:  # fmt: skip
    place = np.full(bases.shape[0], -1, np.int64)  # the entry of each attribute; -2: it has several values
    text_of = np.full(ends[ends.size - 1], -1, np.int64)
    for text in range(texts):
        if text_entries[text] < text_of.size:
            text_of[text_entries[text]] = text
    for e in range(ends.size - 1):
        for i in range(ends[e], ends[e + 1]):
            if attrs[i] >= 0 and bits[i] != DROPPED_BITS and bits[i] != RANK:
                place[attrs[i]] = i if place[attrs[i]] == -1 else -2
        for k in range(links.shape[0]):
            i, j = place[links[k, 1]], place[links[k, 2]]
            code = _NOTHING
            if i != -1 and j != -1:
                code = _SEVERAL
                if i >= 0 and j >= 0:
                    code = _compare_two(i, j, attrs, cells, bits, text_of, text_ends, text_data, bases)
            codes[k, e] = code
        for i in range(ends[e], ends[e + 1]):
            if attrs[i] >= 0:
                place[attrs[i]] = -1


@helper
def _compare_two(
    i: int, j: int, attrs: Int32s, cells: Floats, bits: Int64s, text_of: Int64s, text_ends: Int64s,
    text_data: Bytes, bases: Int32Matrix,
) -> int:  # fmt: skip
    """How the values of entries i and j compare, or _UNKNOWN."""
    x, y = cells[i], cells[j]
    kind = _type_of(x, bits[i], bases[attrs[i]])
    if kind != _type_of(y, bits[j], bases[attrs[j]]):
        return DIFFERENT
    if kind == BOOLEAN:
        return SAME if bits[i] == bits[j] else DIFFERENT
    if i == j:
        return EQUAL
    if kind == NUMBER and not np.isnan(x) and not np.isnan(y):
        return EQUAL if x == y else (LESS if x < y else GREATER)
    s, t = text_of[i], text_of[j]
    if kind != STRING or s < 0 or t < 0:
        return _UNKNOWN
    a, b = text_ends[s], text_ends[t]
    a_end, b_end = text_ends[s + 1], text_ends[t + 1]
    while a < a_end and b < b_end:
        if text_data[a] != text_data[b]:
            return LESS if text_data[a] < text_data[b] else GREATER
        a += 1
        b += 1
    return EQUAL if a == a_end and b == b_end else (LESS if a == a_end else GREATER)


@helper
def _type_of(cell: float, box: int, bases: Int32s) -> int:
    """The type of a value that is not null."""
    if not np.isnan(cell):
        return NUMBER
    rank = box & 0x7FFF_FFFF
    kind: int = BOOLEAN + (rank >= bases[NUMBER]) + (rank >= bases[STRING]) + (rank >= bases[TIMESTAMP])
    return kind
