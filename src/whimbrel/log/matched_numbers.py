"""Match events of a log: from their bytes to the numbers of subscriptions, as arrays.

Whoever matches for a log does it here: the sequencer of a broker, its search of stored events, and tasks on Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whimbrel.engine.index import Index
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.matcher import Errors
from whimbrel.model.token_rules import Rules, allows_text

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
    low = matched.numbers.min(initial=0)
    _, ordered = sort_pairs(rows_of_pairs(matched), matched.numbers - low)
    return matched._replace(numbers=ordered + low)


def rows_of_pairs(matched: MatchedNumbers) -> Numbers:
    """For each pair, the row of its event."""
    return np.repeat(np.arange(len(matched.offsets) - 1), np.diff(matched.offsets))


def keep_pairs(matched: MatchedNumbers, kept: NDArray[np.bool_]) -> MatchedNumbers:
    """Drop the pairs that are not `kept`."""
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)))
    return MatchedNumbers(ends[matched.offsets], matched.numbers[kept], matched.errors)


def apply_rules(
    matched: MatchedNumbers, constrained: Mapping[int, Rules], events: Sequence[bytes], timestamps: Iterable[str]
) -> MatchedNumbers:
    """Drop pairs of numbers with rules that the event does not satisfy. Costs the pairs that have rules."""
    if not constrained or not len(matched.numbers):
        return matched
    held = np.fromiter(constrained, np.int64, len(constrained))
    doubtful = np.flatnonzero(np.isin(matched.numbers, held))
    rows = np.searchsorted(matched.offsets, doubtful, "right") - 1
    kept = np.ones(len(matched.numbers), bool)
    decided: dict[tuple[int, str], bool] = {}  # an event comes often with the same rules
    for pair, row in zip(doubtful.tolist(), rows.tolist(), strict=True):
        rules = constrained[int(matched.numbers[pair])]
        key = row, repr(rules)
        if key not in decided:
            decided[key] = allows_text(rules, events[row], timestamps)
        kept[pair] = decided[key]
    return matched if kept.all() else keep_pairs(matched, kept)


def sort_pairs(keys: NDArray[np.int64], values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs in the order of keys, then of values, which must not be negative.

    Where both fit into 63 bits they are sorted as one number, several times as fast as by an order of places.
    """
    if not len(keys):
        return keys, values
    low = int(keys.min())
    bits = int(values.max()).bit_length()
    if (int(keys.max()) - low).bit_length() + bits > 63:
        order = np.lexsort((values, keys))
        return keys[order], values[order]
    packed = ((keys - low) << bits) | values
    packed.sort()
    return (packed >> bits) + low, packed & ((1 << bits) - 1)
