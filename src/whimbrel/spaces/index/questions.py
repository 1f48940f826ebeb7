"""Some regions before and after, spread over all dimensions, as a search asks for them together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.spaces.layout import HIGH, LOW, Int32s, Int64s

TOGETHER = 32
"""So many questions are asked together: their spread and the lists of one dimension stay in the cache."""
_CELLS = 4_096

OLD_LOW, OLD_HIGH, NEW_LOW, NEW_HIGH = range(4)
TOUCHES, OLD_VALID, NEW_VALID = range(3)


class Questions(NamedTuple):
    """The questions of one thread. Between searches everything is unbounded, unlinked and not disjoint."""

    spread: Int64s
    """By question and dimension: the old ends and the new ones."""
    touched: Int32s
    """By question: the dimensions of which the old region or the new one says something."""
    facts: Int64s
    """By question: how many dimensions are touched; the spaces in which the old region is valid, and the new one."""
    flips: Int32s
    """By question, touched dimension, base or run: the entries between old and new ends, by low cuts and by high."""
    head: Int32s
    """By dimension: the last question that passes entries of it, with the place of the dimension; -1 for none."""
    link: Int32s
    """The one before."""
    chosen: Int64s
    """Dimensions of one question, for each space the most selective."""
    disjoint: Int64s
    """By slot: the spaces with a dimension in which it is disjoint."""


def empty_questions(dimensions: int, slots: int) -> Questions:
    """Room for questions; the fewer, the more dimensions there are."""
    count = max(1, min(TOGETHER, _CELLS // max(dimensions, 1)))
    spread = np.empty((count, dimensions, 4), np.int64)
    spread[:, :, :] = (LOW, HIGH, LOW, HIGH)
    return Questions(
        spread,
        np.zeros((count, dimensions), np.int32),
        np.zeros((count, 3), np.int64),
        np.zeros((count, dimensions, 4, 2), np.int32),
        np.full(dimensions, -1, np.int32),
        np.zeros(count * dimensions, np.int32),
        np.zeros(64, np.int64),
        np.zeros(slots, np.int64),
    )


@kernel
def ask(
    questions: Questions, at: int, spaces: Int64s, old: Int64s, i: int, i_end: int, new: Int64s, j: int, j_end: int
) -> None:
    """Spread the cells of an old and a new region over the dimensions of a question."""
    spread, touched, facts = questions.spread, questions.touched, questions.facts
    touches = old_valid = new_valid = 0
    while i < i_end or j < j_end:
        has_old = i < i_end and (j == j_end or old[i, 0] <= new[j, 0])
        has_new = j < j_end and (i == i_end or new[j, 0] <= old[i, 0])
        d = old[i, 0] if has_old else new[j, 0]
        if has_old:
            spread[at, d, OLD_LOW], spread[at, d, OLD_HIGH] = old[i, 1], old[i, 2]
            old_valid |= spaces[d]
            i += 1
        if has_new:
            spread[at, d, NEW_LOW], spread[at, d, NEW_HIGH] = new[j, 1], new[j, 2]
            new_valid |= spaces[d]
            j += 1
        touched[at, touches] = d
        touches += 1
    facts[at, TOUCHES], facts[at, OLD_VALID], facts[at, NEW_VALID] = touches, old_valid, new_valid


@kernel
def forget(questions: Questions, at: int) -> None:
    """Make a question ask for nothing."""
    spread = questions.spread
    for touch in range(questions.facts[at, TOUCHES]):
        d = questions.touched[at, touch]
        spread[at, d, OLD_LOW], spread[at, d, OLD_HIGH] = LOW, HIGH
        spread[at, d, NEW_LOW], spread[at, d, NEW_HIGH] = LOW, HIGH
