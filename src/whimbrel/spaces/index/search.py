"""The searches of ALGORITHMS 19.2 and 19.3, compiled: all regions that match one, and those that begin to.

Both are one question: which stored regions match `new` and did not match `old`? With no old region it is
findAllMatched, with old and new exchanged it is newly unmatched. Spaces are bits: a pair matches iff a bit is left of
the spaces in which both are valid after removing, for each dimension in which they are disjoint, the spaces that have
it. So the subtraction is per space (ERR-19c), and what matches already through another space is no news (ERR-19d).

Of the three ways to the candidates the cheapest is taken, and the way never matters to the answer. Questions that go by
flips are asked some dozens at a time, dimension by dimension, so that the lists of a dimension are in the cache for
all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.index.around import find_around
from whimbrel.spaces.index.elimination import find_all
from whimbrel.spaces.index.flips import find_flips
from whimbrel.spaces.index.in_tail import find_in_tail
from whimbrel.spaces.index.questions import (
    NEW_VALID,
    OLD_VALID,
    TOUCHES,
    Questions,
    ask,
    forget,
)
from whimbrel.spaces.index.verification import grown
from whimbrel.spaces.index.ways import cost_around, cost_of_all, cost_of_flips
from whimbrel.spaces.layout import HIGH, SLOT_SHIFT, TAIL_USED, Dimensions, Ends, Index, Int32s, Int64s, Rows

_FEW = 256
"""So few entries are passed without asking for a better way."""


def flat(index: Index) -> tuple[Any, ...]:
    """The arrays of an index as one plain tuple, which costs a third of nested ones to hand over."""
    lists = (*index.lows, *index.highs, *index.run_lows, *index.run_highs)
    return (*index.rows, *lists, index.tail, *index.dimensions)


@kernel
def _nested(a: Any) -> Index:
    return Index(
        Rows(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]),
        Ends(a[8], a[9], a[10]),
        Ends(a[11], a[12], a[13]),
        Ends(a[14], a[15], a[16]),
        Ends(a[17], a[18], a[19]),
        a[20],
        Dimensions(a[21], a[22]),
    )


@kernel
def _link(questions: Questions, at: int) -> None:
    """Note with each dimension that a question passes entries of it."""
    dimensions = questions.head.size
    for touch in range(questions.facts[at, TOUCHES]):
        d, item = questions.touched[at, touch], at * dimensions + touch
        flips = 0
        for level in range(4):
            flips += questions.flips[at, touch, level, 1] - questions.flips[at, touch, level, 0]
        if flips:
            questions.link[item] = questions.head[d]
            questions.head[d] = item


@kernel
def search(
    arrays: Any, slots: int, old_start: Int64s, old_cells: Int64s, new_start: Int64s, new_cells: Int64s,
    order: Int64s, names: Int32s, need: int, scratch: Any, out: Int64s,
) -> tuple[Int64s, int]:  # fmt: skip
    """For each of the regions numbered in `order` the slots that match its new and did not match its old content.

    Returns slots << 32 | names of regions, in any order, and how many there are: in `out`, or in a larger array if that
    is too small. Only slots with all flags of `need` count.
    """
    index = _nested(arrays)
    questions = Questions(
        scratch[0], scratch[1], scratch[2], scratch[3], scratch[4], scratch[5], scratch[6], scratch[7]
    )
    spaces, tail = index.dimensions.spaces, index.rows.counts[TAIL_USED]
    plain = need == 0 and spaces.size > 0 and spaces.max() == 1
    lows, highs = index.lows.entries, index.highs.entries
    run_lows, run_highs = index.run_lows.entries, index.run_highs.entries
    found, together = 0, len(questions.facts)
    numbers = np.empty(together, np.int64)
    for first in range(0, order.size, together):
        count = min(together, order.size - first)
        linked = 0
        for at in range(count):
            region = order[first + at]
            ask(
                questions, at, spaces, old_cells, old_start[region], old_start[region + 1], new_cells,
                new_start[region], new_start[region + 1],
            )  # fmt: skip
            number = numbers[at] = names[region]
            if questions.facts[at, NEW_VALID] == 0:
                continue
            flips = around = everything = HIGH
            width = 0
            if questions.facts[at, NEW_VALID] & ~questions.facts[at, OLD_VALID] == 0:
                flips = cost_of_flips(index.lows, index.highs, questions, at, 0)
                flips += cost_of_flips(index.run_lows, index.run_highs, questions, at, 2)
            if flips > _FEW:
                around, width = cost_around(index, questions, at)
                if min(flips, around) > slots // 2:
                    everything = cost_of_all(index.lows, index.highs, questions, at)
                    everything += cost_of_all(index.run_lows, index.run_highs, questions, at)
                    everything = (everything + slots) // 2  # to mark is cheaper than to verify
            if everything < flips and everything < around:
                out, found = find_all(index, slots, questions, at, need, number, out, found)
                continue
            width = 0 if flips <= around else width
            if tail:
                out, found = find_in_tail(index, width, questions, at, need, number, out, found)
            if flips <= around:
                _link(questions, at)
                linked += flips
            else:
                for ends in (index.lows, index.run_lows):
                    out, found = find_around(
                        index.rows, spaces, ends, width, questions, at, need, plain, number, out, found
                    )
        if linked:
            out = grown(out, found, found + linked + 1)
            for d in range(questions.head.size):
                if questions.head[d] >= 0:
                    found = find_flips(
                        index.rows, spaces, lows, highs, 0, d, questions, numbers, need, plain, out, found
                    )
                    if len(run_lows):
                        found = find_flips(
                            index.rows, spaces, run_lows, run_highs, 2, d, questions, numbers, need, plain, out, found
                        )
                    questions.head[d] = -1
        for at in range(count):
            forget(questions, at)
    return out, found


@kernel
def split(found: Int64s, slots: Int32s, regions: Int32s, named_slots: Int32s) -> None:
    """What was found as two arrays, with the names of slots."""
    for row in range(len(regions)):
        regions[row], named_slots[row] = found[row], slots[found[row] >> SLOT_SHIFT]
