"""Decides in compiled code whether a row holds for one element of an array of objects.

`array_rows` finds these rows. An encoder notes for each entry in which element its value lies (`EncodedEvents`), so
that the checks of a row, in the ranks of its segment, can test the values of one element. The checks of a row are made
when it is first in doubt. Python decides the other cases: filters that are more than sets of values, arrays inside
elements, and searches of so many combinations that `Filter.matches` may refuse them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32Matrix, Int32s, Int64Matrix, Int64s
from whimbrel.compiled.jit import inlined, kernel
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.live.check_table import SURE_HIGH, SURE_LOW, checks_of, grown
from whimbrel.model.filter import Filter
from whimbrel.model.limits import BINDING_STEPS
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.kernel_arrays import ARRAY_BITS

FAILS, HOLDS, UNSURE = 0, 1, 2
"""The results of the checks of a row; Python decides unsure ones."""

_ATTR, _LOW, _HIGH, _IS_LAST = 0, 1, 2, 3
"""Columns of `checks`. A value must be in one of the intervals up to the next that is the last one of its attribute."""
_MOST_COUPLED = 64
"""Conjunctions with more attributes whose values all lie in elements are unsure."""
_MOST_STEPS = BINDING_STEPS.value


class CoupledEntries(NamedTuple):
    """The entries of events: event e has those from offsets[e] to offsets[e + 1]."""

    offsets: Int64s
    attrs: Int32s
    ranks: Int32s
    elements: Int32s  # see `EncodedEvents.elements`


class _CheckArrays(NamedTuple):
    """The rows whose checks are made. Arrays are only appended to, or replaced by larger ones."""

    rows: Int32Matrix  # [r, 2]: the first conjunction of a row, and the one behind its last
    conjunctions: Int32Matrix  # [c, 3]: the same for its checks, and whether they decide it
    checks: Int32Matrix  # [k, 4]


class ElementChecks:
    """The checks of rows of one segment. Safe for many threads."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._places: dict[int, int] = {}
        self._arrays = _CheckArrays(np.zeros((4, 2), np.int32), np.zeros((4, 3), np.int32), np.zeros((16, 4), np.int32))
        self._used = [0, 0, 0]
        self._appending = threading.Lock()

    def decide(
        self,
        events: Sequence[int] | np.ndarray,
        rows: Sequence[int],
        entries: CoupledEntries,
        filter_of: Callable[[int], Filter],
    ) -> np.ndarray:
        """Whether rows[i] holds for event events[i]: FAILS, HOLDS or UNSURE."""
        places = np.array([self._place(row, filter_of) for row in rows], np.int64)
        out = np.empty(len(places), np.uint8)
        decide_pairs(self._arrays, places, np.asarray(events, np.int64), entries, out)
        return out

    def _place(self, row: int, filter_of: Callable[[int], Filter]) -> int:
        place = self._places.get(row)
        if place is None:
            with self._appending:
                place = self._places.get(row)
                if place is None:
                    place = self._append(filter_of(row))
                    self._places[row] = place
        return place

    def _append(self, filter: Filter) -> int:
        rows, conjunctions, checks = self._arrays
        place, first, at = self._used
        for number, conjunction in enumerate(filter.conjunctions, first):
            found, is_exact = checks_of(self._dictionary, conjunction)
            is_exact = is_exact and all(one[1:3] == (one[SURE_LOW], one[SURE_HIGH]) for one in found)
            is_exact = is_exact and all(constraint.is_plain for _, constraint in conjunction.constraints)
            end = at + len(found) if is_exact else at
            checks = grown(checks, end)
            if end > at:
                checks[at:end] = [(one[0], one[1], one[2], one[-1]) for one in found]
            conjunctions = grown(conjunctions, number + 1)
            conjunctions[number] = at, end, is_exact
            at = end
        rows = grown(rows, place + 1)
        rows[place] = first, first + len(filter.conjunctions)
        self._arrays = _CheckArrays(rows, conjunctions, checks)
        self._used = [place + 1, first + len(filter.conjunctions), at]
        return place


_OF_SEGMENT: WeakKeyDictionary[Segment, ElementChecks] = WeakKeyDictionary()
_MAKING = threading.Lock()


def element_checks(segment: Segment) -> ElementChecks:
    """The checks of a segment, kept as long as the segment lives."""
    found = _OF_SEGMENT.get(segment)
    if found is None:
        with _MAKING:
            found = _OF_SEGMENT.setdefault(segment, ElementChecks(segment.dictionary))
    return found


@kernel
def decide_pairs(arrays: _CheckArrays, places: Int64s, events: Int64s, entries: CoupledEntries, out: Bytes) -> None:
    """Write whether row places[i] of `arrays` holds for event events[i]: FAILS, HOLDS or UNSURE."""
    rows, conjunctions, checks = arrays
    offsets, attrs, ranks, elements = entries
    longest = 0
    for i in range(places.size):
        longest = max(longest, offsets[events[i] + 1] - offsets[events[i]])
    common = np.empty(longest, np.int64)
    coupled = np.empty((_MOST_COUPLED, 3), np.int64)
    for i in range(places.size):
        begin, end = offsets[events[i]], offsets[events[i] + 1]
        found = FAILS
        for c in range(rows[places[i], 0], rows[places[i], 1]):
            held = UNSURE
            if conjunctions[c, 2]:
                held = _holds(
                    checks, conjunctions[c, 0], conjunctions[c, 1], attrs, ranks, elements, begin, end, common, coupled
                )
            if held == HOLDS:
                found = HOLDS
                break
            found = max(found, held)
        out[i] = found


@inlined
def _is_inside(checks: Int32Matrix, first: int, rank: int) -> bool:
    """Whether a rank is in one of the intervals from `first` to the last one of its attribute."""
    k = first
    while True:
        if checks[k, _LOW] <= rank <= checks[k, _HIGH]:
            return True
        if checks[k, _IS_LAST]:
            return False
        k += 1


@inlined
def _entries_of(attrs: Int32s, attr: int, begin: int, end: int) -> tuple[int, int]:
    """The first entry of an attribute between `begin` and `end`, and the one behind its last: they are adjacent."""
    first = begin
    while first < end and attrs[first] != attr:
        first += 1
    last = first
    while last < end and attrs[last] == attr:
        last += 1
    return first, last


@inlined
def _holds(
    checks: Int32Matrix, first: int, last: int, attrs: Int32s, ranks: Int32s, elements: Int32s, begin: int,
    end: int, common: Int64s, coupled: Int64Matrix,
) -> int:  # fmt: skip
    """Whether values from one element of each array pass checks first .. last; `common` and `coupled` are scratch."""
    count = 0
    steps = 1
    k = first
    while k < last:
        run, stop = _entries_of(attrs, checks[k, _ATTR], begin, end)
        picks, array, before = 0, -1, 0
        is_free = is_odd = False
        for i in range(run, stop):
            if not _is_inside(checks, k, ranks[i]):
                continue
            element = elements[i]
            picks += 1
            if element == 0:
                is_free = True  # a value outside all arrays goes with any element
                break
            own = element & ((1 << ARRAY_BITS) - 1)
            is_odd |= element < before or (array >= 0 and own != array)  # an element below 0 lies in a nested array
            before, array = element, own
        if picks == 0:
            return FAILS
        if not is_free:
            steps *= 1 + picks
            if is_odd or steps > _MOST_STEPS or count == coupled.shape[0]:
                return UNSURE
            coupled[count, 0], coupled[count, 1], coupled[count, 2] = k, array, 0
            count += 1
        while checks[k, _IS_LAST] == 0:
            k += 1
        k += 1
    for one in range(count):
        if coupled[one, 2]:
            continue
        size = _passing_elements(checks, coupled[one, 0], attrs, ranks, elements, begin, end, common, -1)
        for other in range(one + 1, count):
            if coupled[other, 1] == coupled[one, 1]:
                coupled[other, 2] = 1
                size = _passing_elements(checks, coupled[other, 0], attrs, ranks, elements, begin, end, common, size)
        if size == 0:
            return FAILS
    return HOLDS


@inlined
def _passing_elements(
    checks: Int32Matrix, k: int, attrs: Int32s, ranks: Int32s, elements: Int32s, begin: int, end: int,
    common: Int64s, size: int,
) -> int:  # fmt: skip
    """Write to `common` the elements in which check k passes, ascending; if `size` >= 0, only of its first `size`."""
    run, stop = _entries_of(attrs, checks[k, _ATTR], begin, end)
    n = at = 0
    for i in range(run, stop):
        if not _is_inside(checks, k, ranks[i]) or (n > 0 and common[n - 1] == elements[i]):
            continue
        if size >= 0:
            while at < size and common[at] < elements[i]:
                at += 1
            if at == size:
                break
            if common[at] != elements[i]:
                continue
        common[n] = elements[i]
        n += 1
    return n
