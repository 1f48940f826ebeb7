"""Ranks for matchers that keep sets of values, not rows: Hanson's trees, the groups of SGIM, the tree of tests.

These matchers change one conjunction at a time and freeze now and then. Then they rank the constants that they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from whimbrel.compiled.jit import inlined
from whimbrel.model.event import Event
from whimbrel.model.intervals import IntervalSet
from whimbrel.ranks.constants import Constants
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.dictionary_builder import build_dictionary


def rank_constants(sets: Mapping[str, Iterable[IntervalSet]]) -> Dictionary:
    """The dictionary of the constants of sets of values, by attribute. Attributes are numbered as they come."""
    constants: list[Constants] = []
    for values in sets.values():
        constants.append(Constants())
        for one in values:
            constants[-1].add(one)
    return build_dictionary(list(sets), constants)


def event_ranks(dictionary: Dictionary, event: Event) -> list[tuple[int, list[int]]]:
    """The attributes of an event that have ranks, each with the ranks of its values without null."""
    found = []
    for name in event.attributes:
        attr = dictionary.attributes.get(name)
        if attr is not None:
            rank = dictionary.lookup(attr).rank
            held = [rank(key) for key in event.keys(name) if key[0] >= 0]
            if held:
                found.append((attr, held))
    return found


@inlined
def in_spans(rank: int, spans: np.ndarray, start: int, stop: int) -> bool:
    """Whether a rank lies in one of the sorted intervals spans[start:stop], of which there is at least one."""
    low, high = start, stop
    while high - low > 1:
        middle = (low + high) >> 1
        if spans[middle, 0] <= rank:
            low = middle
        else:
            high = middle
    return bool(spans[low, 0] <= rank <= spans[low, 1])
