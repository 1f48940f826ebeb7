"""Finds distinct values and groups of equal values, faster than NumPy's `unique`.

`unique` uses a hash table. That takes three times as long as sorting if values hardly repeat, and much longer than a
table of marks if integers are dense.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Floats, Int32s
from whimbrel.compiled.jit import kernel
from whimbrel.compiled.views import read_only
from whimbrel.ranks.string_kernels import string_words

_FACTOR, _ONE = np.uint64(0x9E3779B97F4A7C15), np.uint64(1)
_BITS = 63
_GOES_ON = 8
"""The count byte of a word of `string_words` if the string goes on after it."""
_MOST_CUT = 24
"""Bits that a sort key may drop, at most: hashes of the other 40 bits order numbers well if few are equal."""
_CROWDED = 24
"""Values in one step of equal width, at most, for sorting by steps."""


def distinct(values: np.ndarray) -> np.ndarray:
    """The sorted distinct values. Dense integers are marked in a table, others are sorted unless they are already.

    >>> distinct(np.array([7, 5, 7]))
    array([5, 7])
    """
    if values.dtype.kind == "i" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low <= 4 * len(values):
            there = np.zeros(high - low + 1, bool)
            there[values - low] = True
            return (np.flatnonzero(there) + low).astype(values.dtype)
    if (values[1:] > values[:-1]).all():
        return values
    ordered = np.sort(values)
    first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered if first.all() else ordered[first]


def distinct_strings(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The rows of the sorted distinct strings. Seven bytes are sorted at a time; only ties look at the next seven."""
    order = np.arange(len(offsets) - 1)
    words = np.empty(len(order), np.uint64)
    string_words(offsets, data, read_only(order), 0, words)
    order = np.argsort(words)
    words = words[order]
    same = np.zeros(len(order), bool)
    same[1:] = words[1:] == words[:-1]
    places = np.arange(len(order))
    tied = same & ((words & np.uint64(0xFF)) == _GOES_ON)
    depth = 0
    while tied.any():
        depth += 7
        inside = tied.copy()
        inside[:-1] |= tied[1:]
        places, begins = places[inside], ~tied[inside]
        rows = order[places]
        words = np.empty(len(rows), np.uint64)
        string_words(offsets, data, read_only(rows), depth, words)
        by = _sort_within(words, begins)
        order[places], words = rows[by], words[by]
        equal = np.zeros(len(rows), bool)
        equal[1:] = (words[1:] == words[:-1]) & ~begins[1:]
        same[places] = equal
        tied = equal & ((words & np.uint64(0xFF)) == _GOES_ON)
    return order[~same]


def _sort_within(words: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """The order of words within groups; `begins` marks the first word of each group."""
    starts = np.flatnonzero(begins)
    if len(starts) * 256 > len(words):
        return np.lexsort((words, np.cumsum(begins)))
    by = np.empty(len(words), np.int64)
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        by[start:end] = start + np.argsort(words[start:end])
    return by


def together(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An order in which equal numbers are adjacent, by their places, and whether each number equals the next one.

    No number may be negative. The number, or a hash of it if it has too many bits, and its place make one integer:
    NumPy sorts integers seven times as fast as it finds a stable order.

    >>> together(np.array([3, 1, 3, 2]))
    (array([1, 3, 0, 2]), array([False, False,  True]))
    """
    bits = len(values).bit_length()
    mask = np.int64((1 << bits) - 1)
    is_exact = int(values.max(initial=0)).bit_length() + bits < _BITS
    packed = values << bits if is_exact else (values.astype(np.uint64) * _FACTOR >> _ONE).view(np.int64) & ~mask
    packed |= np.arange(len(values))
    packed.sort()
    order = packed & mask
    same = packed[1:] ^ packed[:-1] <= mask
    if not is_exact:
        tied = np.flatnonzero(same)
        mixed = tied[values[order[tied]] != values[order[tied + 1]]]  # different numbers with the same hash
        ends = np.append(np.flatnonzero(~same) + 1, len(order))
        for run in np.unique(np.searchsorted(ends, mixed, "right")).tolist():
            begin, end = int(ends[run - 1]) if run else 0, int(ends[run])
            own = order[begin:end]
            own = own[np.argsort(values[own], kind="stable")]
            order[begin:end] = own
            same[begin : end - 1] = values[own[1:]] == values[own[:-1]]
    return order, same


def sort_by_two(major: np.ndarray, minor: np.ndarray) -> np.ndarray:
    """An order in which equal `major` numbers are adjacent, sorted by the leading bits of their `minor` numbers.

    No number may be negative.

    >>> sort_by_two(np.array([3, 1, 3, 2]), np.array([9, 9, 8, 9]))
    array([1, 3, 2, 0])
    """
    order, same = together(major)
    if not same.any():
        return order
    tied = np.zeros(len(order), bool)
    tied[1:] = same
    tied[:-1] |= same
    run = np.append(0, np.cumsum(~same))[tied]
    mine = order[tied]
    own = minor[mine]
    bits = len(major).bit_length()
    spare = _BITS - bits - int(run[-1]).bit_length()
    cut = max(0, int(own.max()).bit_length() - spare)
    if cut > _MOST_CUT:
        order[tied] = mine[np.lexsort((own, run))]
        return order
    packed = (((run << spare) | (own >> cut)) << bits) | mine
    packed.sort()
    order[tied] = packed & ((1 << bits) - 1)
    return order


def float_places(values: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """The sorted distinct values and the place of each value among them; None if values are spread too unevenly.

    All values must be finite. Takes half the time of sorting them and searching for each.

    >>> float_places(np.array([2.5, 0.5, 2.5]))
    (array([0.5, 2.5]), array([1, 0, 1], dtype=int32))
    """
    low, high = float(values.min()), float(values.max())
    if not 0.0 < high - low < np.inf:
        return None
    rows, places = np.empty(len(values), np.int32), np.empty(len(values), np.int32)
    ordered = np.empty(len(values))
    steps = np.zeros(len(values) + 1, np.int32)
    scale = (len(values) - 1) / (high - low)
    count = place_floats(values, low, scale, steps, ordered, rows, places) if np.isfinite(scale) else 0
    return (ordered[:count], places) if count else None


@kernel
def place_floats(
    values: Floats, low: float, scale: float, steps: Int32s, ordered: Floats, rows: Int32s,
    places: Int32s,
) -> int:  # fmt: skip
    """Sort values into steps of equal width, then within each; return how many are distinct, or 0 if a step is full.

    Step (value - low) * scale of a value is counted in `steps`. Writes the sorted distinct values to `ordered`, and the
    place of each value among them to `places`; `rows` is scratch.
    """
    for i in range(values.size):
        steps[np.int64((values[i] - low) * scale) + 1] += 1
    for step in range(1, steps.size):
        if steps[step] > _CROWDED:
            return 0
        steps[step] += steps[step - 1]
    for i in range(values.size):
        own = np.int64((values[i] - low) * scale)
        ordered[steps[own]], rows[steps[own]] = values[i], i
        steps[own] += 1
    for i in range(values.size):
        value, row = ordered[i], rows[i]
        j = i
        while j > 0 and ordered[j - 1] > value:
            ordered[j], rows[j] = ordered[j - 1], rows[j - 1]
            j -= 1
        ordered[j], rows[j] = value, row
    last = 0
    for i in range(values.size):
        if ordered[i] != ordered[last]:
            last += 1
            ordered[last] = ordered[i]
        places[rows[i]] = last
    return last + 1
