"""Ranks for matchers that keep sets of values, not rows: Hanson's trees, the groups of SGIM, the tree of tests.

These matchers change one conjunction at a time and freeze now and then. Then they rank the constants that they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from whimbrel.model.event import Event
from whimbrel.model.intervals import IntervalSet
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.dictionary_builder import Constants, build_dictionary


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


def bounded_float(value: object) -> float:
    """A number as a float, at most 1e300 away from 0, so that the difference of two is finite."""
    try:
        return min(max(float(value), -1e300), 1e300)  # type: ignore[arg-type]
    except OverflowError:
        return 1e300 if value > 0 else -1e300  # type: ignore[operator]
