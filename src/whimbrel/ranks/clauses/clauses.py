"""Clauses: the conjunctions of many filters as flat arrays of rank intervals, ready to plan and lay out.

A conjunction becomes a list of *items*. An item tests the set of ranks that an event has for one attribute: RANGE and
SET want some rank inside, NO_RANGE and NO_SET want none. Rank 0 is null, and a missing attribute has no rank at all,
so items express every test of sets of values, null and missing. Patterns are items of a derived attribute
(`ranks.patterns`). Comparisons between attributes, LIKE with several wildcards and regular expressions are more than
items can express. They mark the conjunction VERIFY: its items are necessary, and the filter itself decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import NULL_KEY, Constraint
from whimbrel.model.intervals import ALL, STRINGS, IntervalSet
from whimbrel.model.values import STRING, SortKey
from whimbrel.ranks.dictionary import Dictionary, DictionaryMeta, derived_key
from whimbrel.ranks.patterns.pattern_fragments import PatternFragments, look

RANGE, SET, NO_RANGE, NO_SET = 0, 1, 2, 3
VERIFY, SHARED = 1, 2
"""Flags of a conjunction: its filter must be verified; its subscription has other conjunctions too."""

ALTERNATIVES = 64
"""Ways to split a conjunction on null and missing, beyond which it is verified instead."""


@dataclass(frozen=True, slots=True)
class Item:
    """One test in value space: some (or, negated, no) member of the attribute's set is in `values`, or is null.

    `is_joined`: of an attribute with several values this is only necessary, as other tests want the same one.
    """

    attribute: str
    values: IntervalSet
    null: bool = False
    negated: bool = False
    is_joined: bool = False


@dataclass(slots=True)
class Clauses:
    """Conjunctions in rank space: m conjunctions, k items, s sets of several intervals."""

    attributes: list[str]
    row: np.ndarray  # int32[m]: the subscription of each conjunction
    flags: np.ndarray  # uint8[m]
    start: np.ndarray  # int64[m + 1]: the items of each conjunction
    attr: np.ndarray  # int32[k]
    kind: np.ndarray  # uint8[k]
    low: np.ndarray  # int32[k]: first rank, or the number of the set
    high: np.ndarray  # int32[k]: last rank
    set_start: np.ndarray  # int64[s + 1]
    set_low: np.ndarray  # int32
    set_high: np.ndarray  # int32
    always: np.ndarray  # int32: the subscriptions that every event matches
    dictionary: Dictionary = field(default_factory=lambda: Dictionary({}, DictionaryMeta([])))


def split(conjunction: Conjunction) -> tuple[list[list[Item]], bool]:
    """The alternatives that a conjunction stands for, each a list of items, and whether to verify.

    One constraint that admits missing or null *or* some values is two alternatives.
    """
    verify = bool(conjunction.links)
    alternatives: list[list[Item]] = [[]]
    for name, constraint in conjunction.constraints:
        looked = look(constraint) if constraint.include or constraint.exclude else None
        verify = verify or (looked is not None and not looked.is_exact)
        ways = _ways(name, constraint, looked)
        if len(alternatives) * len(ways) > ALTERNATIVES:
            verify = True
            continue
        alternatives = [items + way for items in alternatives for way in ways]
    for name in sorted(conjunction.attributes - conjunction.by_attribute.keys()):
        for items in alternatives:
            items.append(Item(name, ALL))
    return alternatives, verify


def _ways(name: str, constraint: Constraint, looked: PatternFragments | None) -> list[list[Item]]:
    if not constraint.values:
        return [_state(name, constraint)]
    if constraint.null and not constraint.missing and not constraint.bound and not constraint.forbidden:
        if not constraint.required:  # IS NOT MISSING
            return [[Item(name, ALL, null=True)]]
        if all(NULL_KEY in group for group in constraint.required):  # CONTAINS NULL
            return [_members(name, constraint)]
    items = _members(name, constraint)
    if looked is not None:
        items += _pieces(name, looked)
    is_implied = looked is not None and looked.wanted and constraint.values == STRINGS  # only strings have pieces
    if (constraint.bound or constraint.forbidden or not items) and not is_implied:
        items.insert(0, Item(name, constraint.values))
    ways = [items]
    if constraint.missing or constraint.null:
        ways.append(_state(name, constraint))
    return ways


def _state(name: str, constraint: Constraint) -> list[Item]:
    """The test for missing, null only, or either."""
    if constraint.missing and constraint.null:
        return [Item(name, ALL, negated=True)]
    if constraint.missing:
        return [Item(name, ALL, null=True, negated=True)]
    return [Item(name, IntervalSet(()), null=True), Item(name, ALL, negated=True)]


def _members(name: str, constraint: Constraint) -> list[Item]:
    items = [_points(name, group) for group in sorted(constraint.required, key=sorted)]
    if constraint.forbidden:
        items.append(_points(name, constraint.forbidden, negated=True))
    return items


def _points(name: str, keys: frozenset[SortKey], negated: bool = False) -> Item:
    values = IntervalSet.points(key for key in keys if key != NULL_KEY)
    return Item(name, values, null=NULL_KEY in keys, negated=negated)


def _pieces(name: str, looked: PatternFragments) -> list[Item]:
    key = derived_key(name)
    groups = [(group, False) for group in looked.wanted] + [(tuple(looked.unwanted), True)] * bool(looked.unwanted)
    return [
        Item(key, IntervalSet.points((STRING, piece) for piece in group), negated=negated, is_joined=looked.is_joined)
        for group, negated in groups
    ]
