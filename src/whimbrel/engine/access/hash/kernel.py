"""Matches an event against hash keys: looks up every key that the event has and visits the records found there."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Int32Matrix, Int32s, Int64Matrix, Int64s
from whimbrel.compiled.helpers import lower_bound
from whimbrel.compiled.intrinsics import prefetch
from whimbrel.compiled.jit import expanded, helper, inlined
from whimbrel.engine.access.hash.keys import LINE, find, line_of
from whimbrel.engine.access.hash.layout import (
    COARSE,
    COARSE_BITS,
    IS_PRESENT,
    NUMBER,
    NUMBER_BITS,
    RANGES,
    REFERENCES,
    HashArrays,
)
from whimbrel.engine.access.shared.arrays import EventState, EventValues, Scratch, SharedArrays
from whimbrel.engine.access.shared.packing import emit
from whimbrel.engine.access.shared.records import visit

RUNS_AHEAD = 3
"""A run is prefetched so many runs before its visit."""
_LOOKUPS_AHEAD = 16
"""A line of the table is prefetched so many look-ups before its own."""
_LINES = 8
"""At most so many cache lines of a run are prefetched: the processor itself fetches what follows."""
_TARGETS_AHEAD = 16
"""The target of a reference is prefetched so many references before its turn."""


@inlined
def match_hash(
    keys: HashArrays, shared: SharedArrays, values: EventValues, event: EventState, scratch: Scratch, out: Int32s,
    n: int,
) -> int:  # fmt: skip
    """Append the rows that the event reaches by its hash keys; return the new length, or -1 if `out` is full."""
    if n < 0 or keys.lines.shape[0] == 0:
        return n
    value, present, codes, coarse = values.value, scratch.present, scratch.codes, scratch.coarse
    buckets, numbers, shift = keys.buckets, keys.numbers, keys.shift
    for x in range(event.attributes):
        a = present[x]
        v = value[a]
        codes[2 * a + 1] = max(v, -2)
        codes[2 * a + 2] = (v * buckets[a]) >> 32 if v >= 0 else -2
        coarse[numbers[a]] = v >> shift[a] if v >= 0 else v
    runs = _probe(keys, values, event, present, codes, scratch.run, scratch.counts)
    n = _visit_runs(keys, shared.records, values, event, scratch, runs, out, n) if runs >= 0 else -1
    for x in range(event.attributes):
        a = present[x]
        codes[2 * a + 1] = codes[2 * a + 2] = coarse[numbers[a]] = -1
    return n


@inlined
def _visit_runs(
    keys: HashArrays, records: Int32s, values: EventValues, event: EventState, scratch: Scratch, runs: int,
    out: Int32s, n: int,
) -> int:  # fmt: skip
    """Append the rows of the first `runs` runs in `scratch.run`; return the new length, or -1 if `out` is full."""
    refs, targets, shift = keys.refs, keys.targets, keys.shift
    run, alive, coarse = scratch.run, scratch.alive, scratch.coarse
    # Not literals, for which helpers would be compiled once more.
    listed: int = np.int64(-1)  # type: ignore[assignment]
    kept: int = np.int64(0)  # type: ignore[assignment]
    candidates = np.int64(0)
    for r in range(-RUNS_AHEAD, runs):
        if r + RUNS_AHEAD < runs:
            asked = run[r + RUNS_AHEAD]
            if asked & REFERENCES:
                _prefetch_run(refs, asked >> 32, asked & (REFERENCES - 1))
            else:
                prefetch(records, asked >> 32)
        if r < 0 or n < 0:
            continue
        start, left = run[r] >> 32, run[r] & (REFERENCES - 1)
        candidates += left
        if run[r] & REFERENCES == 0:
            n = visit(records, alive, start, left, values, event, out, n)
            continue
        while left > 0:
            if kept == alive.size:
                kept, n = _check_targets(refs, targets, shift, alive, kept, coarse, values, event, out, n)
                if n >= 0:
                    n = visit(records, alive, listed, kept, values, event, out, n)
                kept = np.int64(0)  # type: ignore[assignment]
                if n < 0:
                    break
            size = min(left, alive.size - kept)
            kept = _collect(refs, start, size, coarse, alive, kept)
            start += size
            left -= size
    if kept and n >= 0:
        kept, n = _check_targets(refs, targets, shift, alive, kept, coarse, values, event, out, n)
        if n >= 0:
            n = visit(records, alive, listed, kept, values, event, out, n)
    scratch.counts[0] += candidates
    return n


@helper
def _prefetch_run(refs: Int64s, first: int, count: int) -> None:
    """Prefetch the first cache lines of a run of `count` references."""
    for line in range(min(_LINES, (count + 7) >> 3)):
        prefetch(refs, first + 8 * line)


@expanded
def _admits(span: int, c: int) -> bool:
    """Whether coarse rank `c` is in the range that `span` packs; also true below -1, which means several values."""
    span = np.uint32(span)  # type: ignore[assignment]
    low, width = span & np.uint32(COARSE), span >> np.uint32(COARSE_BITS)
    return (np.uint32(np.uint32(c) - low) <= width) | (c < -1)  # type: ignore[return-value]


@helper
def _collect(refs: Int64s, first: int, count: int, coarse: Int32s, alive: Int32s, kept: int) -> int:
    """List the references of a run whose first range admits the event; return how many `alive` has now."""
    for i in range(first, first + count):  # append always, keep if inside: no branch to mispredict
        ref = np.uint64(refs[np.uint64(i)])
        alive[np.uint64(kept)] = i
        kept += _admits(ref >> np.uint64(32), coarse[ref & np.uint64(NUMBER)])  # type: ignore[arg-type]
    return kept


@helper
def _holds_for_several(
    refs: Int64s, targets: Int32Matrix, i: int, shift: Int32s, coarse: Int32s, attrs: Int32s,
    ranks: Int32s, end: int,
) -> bool:  # fmt: skip
    """Whether the ranges of reference i, which decides, hold for an event with several values of some attribute."""
    for r in range(RANGES):
        c = coarse[(refs[i] >> (NUMBER_BITS * r)) & NUMBER]
        if c >= -1:
            continue  # seen to hold already
        j = -2 - c
        a = attrs[j]
        good = False
        while j < end and attrs[j] == a:
            span = refs[i] >> 32 if r == 0 else np.int64(targets[i, r])
            good |= _admits(span, ranks[j] >> shift[a])  # type: ignore[arg-type]
            j += 1
        if not good:
            return False
    return True


@helper
def _check_targets(
    refs: Int64s, targets: Int32Matrix, shift: Int32s, listed: Int32s, count: int, coarse: Int32s,
    values: EventValues, event: EventState, out: Int32s, n: int,
) -> tuple[int, int]:  # fmt: skip
    """Check the other two ranges of listed references. Append the row of one that decides; list the record of another.

    The records replace the references in `listed`. Return how many records there are, and the new length of `out`, or
    -1 if it is full.
    """
    if n + count > out.size:
        return np.int64(0), np.int64(-1)  # type: ignore[return-value]
    kept = np.int64(0)
    for x in range(min(count, _TARGETS_AHEAD)):
        prefetch(targets, RANGES * np.int64(listed[x]))
    for x in range(count):
        if x + _TARGETS_AHEAD < count:
            prefetch(targets, RANGES * np.int64(listed[x + _TARGETS_AHEAD]))
        i = np.uint64(listed[np.uint64(x)])
        ref, target = np.uint64(refs[i]), targets[i, 0]
        good = _admits(targets[i, 1], coarse[(ref >> np.uint64(NUMBER_BITS)) & np.uint64(NUMBER)])
        good &= _admits(targets[i, 2], coarse[(ref >> np.uint64(2 * NUMBER_BITS)) & np.uint64(NUMBER)])
        if event.several and target < 0:
            if good and _holds_for_several(refs, targets, i, shift, coarse, values.attrs, values.ranks, event.end):  # type: ignore[arg-type]
                n = emit(~target, event.several, values.stamp, event.epoch, out, n)
            continue
        out[np.uint64(n)] = ~target
        n += good & (target < 0)
        listed[np.uint64(kept)] = target
        kept += good & (target >= 0)
    return kept, n  # type: ignore[return-value]


@inlined
def _probe(
    keys: HashArrays, values: EventValues, event: EventState, present: Int32s, codes: Int32s, run: Int64s,
    counts: Int64s,
) -> int:  # fmt: skip
    """Look up every hash key that the event has; return the number of runs found, now in `run`, or -1 if that is full.

    All keys are made first, then all are looked up, each line prefetched. Neither loop branches on what an event has or
    a filter wants.
    """
    first, lines, table = keys.first, keys.lines, keys.table
    n: int = np.int64(0)  # type: ignore[assignment]
    for x in range(event.attributes):
        a = present[x]
        if n + first[a + 1] - first[a] > run.size:
            return -1
        for s in range(first[a], first[a + 1]):
            u = np.uint64(s)  # unsigned, so that no code checks for a negative index
            c0 = codes[np.uint64(lines[u, 4])]
            c1 = codes[np.uint64(lines[u, 5])]
            c2 = codes[np.uint64(lines[u, 6])]
            missing = (c0 | c1 | c2) < 0
            if event.several and missing:
                if c0 == -1 or c1 == -1 or c2 == -1:
                    continue
                if not lines[u, IS_PRESENT]:
                    n = _keys_of_several(
                        keys.attrs[s], keys.base[s], keys.radix[s], keys.factor[s], table, values.value, values.attrs,
                        values.ranks, event.end, run, n,
                    )  # fmt: skip
                    if n < 0 or n + first[a + 1] - s > run.size:
                        return -1
                    continue
                missing = False
            run[np.uint64(n)] = lines[u, 0] + c0 * lines[u, 1] + c1 * lines[u, 2] + c2
            n += not missing
    counts[1] += n
    size = table.shape[0]
    for i in range(_LOOKUPS_AHEAD if n > _LOOKUPS_AHEAD else n):
        prefetch(table, np.int64(line_of(run[i], size)) * 2 * LINE)
    hits = np.int64(0)
    for i in range(n):
        if i + _LOOKUPS_AHEAD < n:
            prefetch(table, np.int64(line_of(run[i + _LOOKUPS_AHEAD], size)) * 2 * LINE)
        found = find(table, run[i])
        run[np.uint64(hits)] = found
        hits += found != 0
    return hits  # type: ignore[return-value]


@helper
def _keys_of_several(
    shape: Int32s, base: int, radix: Int64s, factor: Int64s, table: Int64Matrix, value: Int32s,
    attrs: Int32s, ranks: Int32s, end: int, run: Int64s, n: int,
) -> int:  # fmt: skip
    """Append the keys of a shape for all combinations of an event's values; return their number, or -1 if too many."""
    a, b, c = shape[0], shape[1], shape[2]
    none: int = np.int32(0)  # type: ignore[assignment]
    v0, v1, v2 = value[a], value[b] if b >= 0 else none, value[c] if c >= 0 else none
    combinations = _count_values(v0, attrs, end) * _count_values(v1, attrs, end) * _count_values(v2, attrs, end)
    if combinations >= table.size:  # long lists: it costs less to test every key of the table
        return _known_keys(
            table, base, radix, _sorted_codes(v0, factor[0], attrs, ranks, end),
            _sorted_codes(v1, factor[1], attrs, ranks, end), _sorted_codes(v2, factor[2], attrs, ranks, end), run, n,
        )  # fmt: skip
    if n + combinations > run.size:
        return -1
    i = -2 - v0 if v0 < 0 else -1
    while True:
        r0 = _code(ranks[i] if i >= 0 else v0, factor[0])
        j = -2 - v1 if v1 < 0 else -1
        while True:
            r1 = _code(ranks[j] if j >= 0 else v1, factor[1])
            k = -2 - v2 if v2 < 0 else -1
            while True:
                r2 = _code(ranks[k] if k >= 0 else v2, factor[2])
                run[n] = base + r0 * radix[0] + r1 * radix[1] + r2 * radix[2]
                n += 1
                k += 1
                if k == 0 or k >= end or attrs[k] != c:
                    break
            j += 1
            if j == 0 or j >= end or attrs[j] != b:
                break
        i += 1
        if i == 0 or i >= end or attrs[i] != a:
            break
    return n


@helper
def _known_keys(
    table: Int64Matrix, base: int, radix: Int64s, values0: Int64s, values1: Int64s, values2: Int64s,
    run: Int64s, n: int,
) -> int:  # fmt: skip
    """Append the keys of the table whose codes are among the sorted values; return their number, or -1 if too many."""
    for at in range(table.shape[0] * LINE):
        key = table[at // LINE, at % LINE]
        rest = key - base
        if rest < 0:
            continue
        good = True
        for values, factor in ((values0, radix[0]), (values1, radix[1]), (values2, radix[2])):
            if factor == 0:
                continue
            rank = rest // factor
            rest -= rank * factor
            good &= _is_among(values, rank)
        if good and rest == 0:
            if n == run.size:
                return -1
            run[n] = key
            n += 1
    return n


@expanded
def _code(rank: int, factor: int) -> int:
    return (rank * factor) >> 32 if factor else np.int64(rank)  # type: ignore[return-value]


@helper
def _count_values(v: int, attrs: Int32s, end: int) -> int:
    """Count the values of an attribute that the event has."""
    first = i = -2 - v
    if v >= 0:
        return 1
    while i < end and attrs[i] == attrs[first]:
        i += 1
    return i - first


@helper
def _sorted_codes(v: int, factor: int, attrs: Int32s, ranks: Int32s, end: int) -> np.ndarray:
    """The sorted codes of all values of an attribute."""
    codes = np.empty(_count_values(v, attrs, end), np.int64)
    for i in range(codes.size):
        codes[i] = _code(ranks[-2 - v + i] if v < 0 else v, factor)
    gap = codes.size >> 1
    while gap:  # Shell's sort: NumPy's would double the time that compiling takes
        for i in range(gap, codes.size):
            code, j = codes[i], i
            while j >= gap and codes[j - gap] > code:
                codes[j] = codes[j - gap]
                j -= gap
            codes[j] = code
        gap = 1 if gap == 2 else (5 * gap) // 11
    return codes


@helper
def _is_among(codes: Int64s, code: int) -> bool:
    place = lower_bound(codes, 0, codes.size, code)
    return bool(place < codes.size and codes[place] == code)
