"""The kernels of encoding: they rank numbers, and turn columns of ranks into the entries of events.

Kernels release the GIL, so that threads encode different blocks at once. Each is compiled for one signature (the search
for two): inputs are read-only contiguous arrays, whether memory-mapped, Arrow buffers or computed. Kernels write a rank
for every cell, nulls included; `mask_nulls` overwrites nulls afterwards, so that inner loops have no test that most
columns do not need.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes, FloatMatrix, Floats, Int32Matrix, Int32s, Int64Matrix, Int64s
from whimbrel.compiled.helpers import Integer, lower_bound
from whimbrel.compiled.intrinsics import prefetch
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.ranks.cells import DROPPED_BITS
from whimbrel.ranks.kernel_arrays import EXACT_FLOAT, FLOATS, FOR_PYTHON, INTEGERS, Numbers, Reading

_TWO_63 = 2.0**63
_AHEAD = 64
"""The table places of so many entries are computed and prefetched before the first of them is read."""
_FEW = 32
"""Up to so many numbers of an attribute are searched without buckets."""


@kernel
def rank_by_table(values: Int64s, table: Int32s, low: int, base: int, out: Int32s) -> None:
    """Write the ranks of integers, given a table for the range of the constants: base + table[v - low]."""
    last = table.shape[0] - 1
    high = low + last
    for i in range(values.shape[0]):
        value = values[i]
        # The ends of the table stand for all values below and above the constants: there v - low may overflow.
        place = 0 if value <= low else (last if value >= high else value - low)
        out[i] = base + table[place]


@kernel
def rank_by_search(
    values: Floats | Int64s, constants: Floats | Int64s, buckets: Int32s, origin: float, scale: float, base: int,
    missing: int, out: Int32s,
) -> None:  # fmt: skip
    """Write ranks by binary search within the bucket of each value; NaN becomes `missing`."""
    count = constants.shape[0]
    last = buckets.shape[0] - 2
    for i in range(values.shape[0]):
        value = values[i]
        if np.isnan(value):
            out[i] = missing
            continue
        place = (np.float64(value) - origin) * scale
        bucket = 0 if not place > 0 else (last if place >= last else np.int64(place))
        low = np.int64(buckets[bucket])
        length = np.int64(buckets[bucket + 1]) - low
        while length > 1:  # no branch on the comparison: half of the predictions would be wrong
            half = length >> 1
            low += half * (constants[low + half - 1] < value)
            length -= half
        low += length == 1 and constants[low] < value
        out[i] = base + 2 * low + (low < count and constants[low] == value)


@kernel
def rank_cells(
    attrs: Int32s, cells: Floats, bits: Int64s, numbers: Numbers, offsets: Int64s,
    out_attrs: Int32s, out: Int32s,
) -> None:  # fmt: skip
    """Write the attributes and ranks of the entries of single events; update `offsets`, as some are left out.

    A cell is a number or carries a rank in its bits (see `cells`). `numbers.integers` and `numbers.floats` are two
    views of the numbers of all attributes; `numbers.kinds` says which view is right for an attribute.
    """
    n = i = ahead = 0
    end = offsets[offsets.shape[0] - 1]
    places = np.empty(_AHEAD, np.int64)
    for e in range(offsets.shape[0] - 1):
        while i < offsets[e + 1]:
            if i == ahead:  # the tables of many attributes are in no cache: prefetch their lines
                ahead = min(i + _AHEAD, end)
                for j in range(i, ahead):
                    is_number = attrs[j] >= 0 and not np.isnan(cells[j])
                    places[j - i] = _table_place(cells[j], attrs[j], numbers) if is_number else -1
                    prefetch(numbers.table, max(np.int64(0), places[j - i]))
            attr, value, box = attrs[i], cells[i], bits[i]
            place = places[i % _AHEAD]
            i += 1
            if attr < 0 or box == DROPPED_BITS:
                continue
            out_attrs[n] = attr
            if np.isnan(value):
                out[n] = np.int32(box & 0x7FFF_FFFF)
            elif place >= 0:
                rank = numbers.table[place]  # if a constant equals the floor of the value, the value is above it
                out[n] = numbers.bases[attr, 1] + rank + (rank & 1 and np.floor(value) != value)
            else:
                out[n] = _rank_number(value, attr, numbers)
            n += 1
        offsets[e + 1] = n


@helper
def _bucket(value: float, attr: int, scale: FloatMatrix, count: int) -> int:
    """The bucket of a number; buckets never descend as numbers ascend."""
    place = (value - scale[attr, 0]) * scale[attr, 1]
    return 0 if not place > 0 else (count - 1 if place >= count - 1 else int(place))


@kernel
def number_buckets(
    kinds: Bytes, starts: Int64s, integers: Int64s, floats: Floats
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Build `first`, `buckets` and `scale` of `Numbers`, with one bucket for two numbers of an attribute."""
    attributes = kinds.shape[0]
    first = np.zeros(attributes + 1, np.int64)
    scale = np.zeros((attributes, 2), np.float64)
    for a in range(attributes):
        low, high = starts[a], starts[a + 1] - 1
        first[a + 1] = first[a]
        if high - low < _FEW:
            continue
        least = floats[low] if kinds[a] == FLOATS else float(integers[low])
        most = floats[high] if kinds[a] == FLOATS else float(integers[high])
        count = (high - low) >> 1
        steps = count / (most - least)
        if np.isfinite(least) and 0 < steps < np.inf:
            scale[a, 0], scale[a, 1] = least, steps
            first[a + 1] += count + 1
    buckets = np.zeros(first[attributes], np.int32)
    for a in range(attributes):
        begin, count = first[a], first[a + 1] - first[a] - 1
        if count < 0:
            continue
        for i in range(starts[a], starts[a + 1]):
            number = floats[i] if kinds[a] == FLOATS else float(integers[i])
            buckets[begin + _bucket(number, a, scale, count) + 1] += 1
        for b in range(count):
            buckets[begin + b + 1] += buckets[begin + b]
    return first, buckets, scale


@kernel
def number_tables(kinds: Bytes, starts: Int64s, integers: Int64s) -> tuple[np.ndarray, np.ndarray]:
    """Build `table_first` and `table` of `Numbers`, for attributes whose integers are dense: at least one in eight."""
    attributes = kinds.shape[0]
    first = np.zeros(attributes + 1, np.int64)
    for a in range(attributes):
        first[a + 1] = first[a]
        count = starts[a + 1] - starts[a]
        if kinds[a] == INTEGERS and count > 0:
            lowest, highest = integers[starts[a]], integers[starts[a + 1] - 1]
            is_exact = lowest >= -EXACT_FLOAT and highest < EXACT_FLOAT  # floats hold all, and highest + 1
            if is_exact and highest - lowest < 8 * count + 64:
                first[a + 1] += highest - lowest + 3
    table = np.empty(first[attributes], np.int32)
    for a in range(attributes):
        at = first[a]
        if first[a + 1] == at:
            continue
        table[at] = 0
        at += 1
        for i in range(starts[a], starts[a + 1]):
            below = 2 * (i - starts[a])
            until = first[a] + 1 + integers[i] - integers[starts[a]]
            while at < until:
                table[at] = below
                at += 1
            table[at] = below + 1
            at += 1
        table[at] = 2 * (starts[a + 1] - starts[a])
    return first, table


@inlined
def _table_place(value: float, attr: int, numbers: Numbers) -> int:
    """The place of a number in the table of its attribute, or -1 if there is none."""
    entry, last = numbers.table_first[attr], numbers.table_first[attr + 1] - 1
    if entry >= last:
        return -1
    lowest = numbers.integers[numbers.starts[attr]]
    if value >= lowest:
        entry = last if value >= lowest + (last - entry - 1) else entry + 1 + (np.int64(np.floor(value)) - lowest)
    place: int = entry
    return place


@helper
def _rank_number(value: float, attr: int, numbers: Numbers) -> int:
    kinds, starts, integers, floats, bases, first, buckets, scale, _, _ = numbers
    begin, end = starts[attr], starts[attr + 1]
    below = np.floor(value)
    inside = kinds[attr] == FLOATS or -_TWO_63 <= below < _TWO_63
    low, high = begin, end
    count = first[attr + 1] - first[attr] - 1
    if not inside:
        low = high = begin if below < 0 else end
    elif count >= 0:
        bucket = first[attr] + _bucket(value if kinds[attr] == FLOATS else below, attr, scale, count)
        low, high = begin + buckets[bucket], begin + buckets[bucket + 1]
    if kinds[attr] == FLOATS:
        low = lower_bound(floats, low, high, value)
        equal = low < end and floats[low] == value
    else:
        whole = np.int64(below) if inside else np.int64(0)
        low = lower_bound(integers, low, high, whole)
        equal = low < end and integers[low] == whole and inside
        if equal and below != value:  # the constant equals the floor of the value: the value is above it
            low, equal = low + 1, False
    rank: int = bases[attr, 1] + 2 * (low - begin) + equal
    return rank


@inlined
def rank_large(whole: int, attr: Integer, numbers: Numbers) -> int:
    """The rank of an integer that no float holds; FOR_PYTHON if the constants are not kept as integers."""
    if numbers.kinds[attr] > INTEGERS:
        return FOR_PYTHON
    first, last = numbers.starts[attr], numbers.starts[attr + 1]
    low = lower_bound(numbers.integers, first, last, whole)
    rank: int = numbers.bases[attr, 1] + 2 * (low - first) + (low < last and numbers.integers[low] == whole)
    return rank


@inlined
def rank_time(time: Integer, attr: Integer, reading: Reading) -> int:
    """The rank of a timestamp."""
    first, last = reading.time_first[attr], reading.time_first[attr + 1]
    low = lower_bound(reading.times, first, last, time)
    rank: int = reading.bases[attr, 3] + 2 * (low - first) + (low < last and reading.times[low] == time)
    return rank


@kernel
def mask_nulls(bitmap: Bytes, offset: int, missing: int, out: Int32s) -> None:
    """Write `missing` where the validity bitmap has a zero; eight cells at a time, without a branch."""
    other = np.int32(missing)
    shift, last = offset & 7, bitmap.shape[0] - 1
    whole = out.shape[0] & ~7
    for i in range(0, whole, 8):
        at = (offset + i) >> 3
        bits = (np.int32(bitmap[at]) | (np.int32(bitmap[min(at + 1, last)]) << 8)) >> shift
        for j in range(8):
            keep = -np.int32((bits >> j) & 1)
            out[i + j] = (out[i + j] & keep) | (other & ~keep)
    for i in range(whole, out.shape[0]):
        bit = offset + i
        if not (bitmap[bit >> 3] >> (bit & 7)) & 1:
            out[i] = other


@kernel
def append_runs(
    starts: Int64s, ends: Int64s, attrs: Int32s, ranks: Int32s, fill: Int64s,
    out_attrs: Int32s, out_ranks: Int32s,
) -> None:  # fmt: skip
    """Copy the entries starts[e]:ends[e] of each event to `out_*` at place fill[e], and move fill[e] behind them."""
    for e in range(fill.shape[0]):
        at = fill[e]
        for i in range(starts[e], ends[e]):
            out_attrs[at] = attrs[i]
            out_ranks[at] = ranks[i]
            at += 1
        fill[e] = at


@kernel
def pack(
    cells: Int32Matrix, rows: int, attrs: Int32s, list_attrs: Int32s, list_places: Int64s,
    list_starts: Int64Matrix, list_ends: Int64Matrix, list_ranks: Int32s,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # fmt: skip
    """Turn columns of ranks, sorted by attribute, into the entries of each event: offsets, attributes, ranks.

    `cells[c, row]` is the rank of a flat column, negative where it is missing. List column k has the ranks
    `list_ranks[list_starts[k, row]:list_ends[k, row]]` and goes before flat column `list_places[k]`.
    """
    columns, lists = attrs.shape[0], list_attrs.shape[0]
    offsets = np.zeros(rows + 1, np.int64)
    for column in range(columns):
        line = cells[column]
        for row in range(rows):
            offsets[row + 1] += line[row] >= 0
    for k in range(lists):
        for row in range(rows):
            offsets[row + 1] += list_ends[k, row] - list_starts[k, row]
    for row in range(rows):
        offsets[row + 1] += offsets[row]
    out_attrs = np.empty(offsets[rows] + 1, np.int32)  # one more: a missing cell is written and then overwritten
    out_ranks = np.empty(offsets[rows] + 1, np.int32)
    at = 0
    for row in range(rows):
        column = 0
        for k in range(lists + 1):
            until = list_places[k] if k < lists else columns
            while column < until:
                rank = cells[column, row]
                out_attrs[at] = attrs[column]
                out_ranks[at] = rank
                at += rank >= 0
                column += 1
            if k < lists:
                for member in range(list_starts[k, row], list_ends[k, row]):
                    out_attrs[at] = list_attrs[k]
                    out_ranks[at] = list_ranks[member]
                    at += 1
    return offsets, out_attrs[:at], out_ranks[:at]
