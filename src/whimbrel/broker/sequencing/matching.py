"""Match a group of events: from the bytes in the log to the numbers of subscriptions, as arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whimbrel.broker.lists import sort_pairs
from whimbrel.engine.index import Index
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.matcher import Errors

Numbers = NDArray[np.int64]


class MatchedNumbers(NamedTuple):
    """Event e matched numbers[offsets[e]:offsets[e + 1]], ascending; an event in `errors` was refused and has none."""

    offsets: Numbers
    numbers: Numbers
    errors: dict[int, WhimbrelError]


def match_events(index: Index, events: list[bytes]) -> MatchedNumbers:
    """Match events, given as JSON. An event that cannot be read, or breaks a limit or the schema, is refused alone."""
    refused: Errors = []
    counts, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for offsets, rows in index.match_blocks(events, threads=1, errors=refused) if events else ():
        counts.append(np.diff(offsets))
        numbers.append(np.asarray(index.ids(rows), np.int64))
    ends = np.cumsum(np.concatenate(counts), dtype=np.int64)
    matched = MatchedNumbers(np.concatenate((np.zeros(1, np.int64), ends)), np.concatenate(numbers), dict(refused))
    return sorted_lists(matched)


def rows_of_pairs(matched: MatchedNumbers) -> Numbers:
    """The event of each pair."""
    return np.repeat(np.arange(len(matched.offsets) - 1), np.diff(matched.offsets))


def sorted_lists(matched: MatchedNumbers) -> MatchedNumbers:
    """The numbers of each event in ascending order."""
    if not len(matched.numbers):
        return matched
    low = matched.numbers.min()
    _, numbers = sort_pairs(rows_of_pairs(matched), matched.numbers - low)
    return MatchedNumbers(matched.offsets, numbers + low, matched.errors)


def only(matched: MatchedNumbers, kept: NDArray[np.bool_]) -> MatchedNumbers:
    """Drop some of the pairs."""
    counts = np.add.reduceat(np.append(kept, False), matched.offsets[:-1], dtype=np.int64) if len(kept) else None
    if counts is None:
        return matched
    counts[np.diff(matched.offsets) == 0] = 0
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
    return MatchedNumbers(offsets, matched.numbers[kept], matched.errors)
