"""Clauses: the conjunctions of many filters as flat arrays of rank intervals, ready to plan and lay out.

A conjunction becomes a list of *items*. An item tests the set of ranks that an event has for one attribute: RANGE and
SET need some rank inside, NO_RANGE and NO_SET need none. Rank 0 is null, and a missing attribute has no rank at all, so
items express every test of sets of values, null and missing. Patterns are items of a derived attribute
(`ranks.patterns`), and so are comparisons between attributes (`ranks.links`). Items cannot express a few patterns.
These mark the conjunction VERIFY: its items are necessary, and the filter itself decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import NULL_KEY, Constraint
from whimbrel.model.intervals import ALL, IntervalSet
from whimbrel.model.values import STRING, SortKey
from whimbrel.ranks.dictionary import Dictionary, DictionaryMeta, derived_key
from whimbrel.ranks.links import link_values
from whimbrel.ranks.patterns.pattern_fragments import PatternFragments, fragments_of

RANGE, SET, NO_RANGE, NO_SET = 0, 1, 2, 3
VERIFY, SHARED = 1, 2
"""Flags of a conjunction: its filter must be verified; its subscription has other conjunctions too."""

ALTERNATIVES = 64
"""A conjunction is split into at most so many alternatives for null and missing; with more it is verified instead."""
ALL_ALTERNATIVES = 4_096
"""A filter of many conjunctions has fewer alternatives for each, so that all of them are at most so many."""


@dataclass(frozen=True, slots=True)
class ValueItem:
    """An item before it has ranks: some value of the attribute (negated: no value) is in `values`, or is null.

    `is_joined`: other tests must hold for the same value, so this one is only necessary if there are several values.
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
    row: Int32s  # [m]: the subscription of each conjunction
    flags: Bytes  # [m]
    start: Int64s  # [m + 1]: the items of each conjunction
    attr: Int32s  # [k]
    kind: Bytes  # [k]
    low: Int32s  # [k]: first rank, or the number of the set
    high: Int32s  # [k]: last rank
    set_start: Int64s  # [s + 1]
    set_low: Int32s
    set_high: Int32s
    always: Int32s  # the subscriptions that every event matches
    dictionary: Dictionary = field(default_factory=lambda: Dictionary({}, DictionaryMeta([])))


def split(conjunction: Conjunction, most: int = ALTERNATIVES) -> tuple[list[list[ValueItem]], bool]:
    """Split a conjunction into at most so many alternatives, each a list of items; tell if its filter must be verified.

    A constraint that admits missing or null *or* some values is two alternatives.
    """
    verify = False
    alternatives = [[ValueItem(derived_key(link.left, link.right), link_values(link.op)) for link in conjunction.links]]
    for name, constraint in conjunction.constraints:
        fragments = fragments_of(constraint) if constraint.include or constraint.exclude else None
        verify = verify or (fragments is not None and not fragments.is_exact)
        choices = _alternatives(name, constraint, fragments)
        if len(alternatives) * len(choices) > most:
            verify = True
            continue
        alternatives = [items + choice for items in alternatives for choice in choices]
    return alternatives, verify


def _alternatives(name: str, constraint: Constraint, fragments: PatternFragments | None) -> list[list[ValueItem]]:
    if not constraint.values:
        return [_state(name, constraint)]
    if constraint.null and not constraint.missing and not constraint.bound and not constraint.forbidden:
        if not constraint.required:  # IS NOT MISSING
            return [[ValueItem(name, ALL, null=True)]]
        if all(NULL_KEY in group for group in constraint.required):  # CONTAINS NULL
            return [_members(name, constraint)]
    items = _members(name, constraint)
    if fragments is not None:
        items += _fragment_items(name, fragments)
    is_implied = fragments is not None and fragments.wanted and constraint.values == fragments.values
    if (constraint.bound or constraint.forbidden or not items) and not is_implied:
        items.insert(0, ValueItem(name, constraint.values))
    alternatives = [items]
    if constraint.missing or constraint.null:
        alternatives.append(_state(name, constraint))
    return alternatives


def _state(name: str, constraint: Constraint) -> list[ValueItem]:
    """The test for missing, null only, or either."""
    if constraint.missing and constraint.null:
        return [ValueItem(name, ALL, negated=True)]
    if constraint.missing:
        return [ValueItem(name, ALL, null=True, negated=True)]
    return [ValueItem(name, IntervalSet(()), null=True), ValueItem(name, ALL, negated=True)]


def _members(name: str, constraint: Constraint) -> list[ValueItem]:
    items = [_points(name, group) for group in sorted(constraint.required, key=sorted)]
    if constraint.forbidden:
        items.append(_points(name, constraint.forbidden, negated=True))
    return items


def _points(name: str, keys: frozenset[SortKey], negated: bool = False) -> ValueItem:
    values = IntervalSet.points(key for key in keys if key != NULL_KEY)
    return ValueItem(name, values, null=NULL_KEY in keys, negated=negated)


def _fragment_items(name: str, fragments: PatternFragments) -> list[ValueItem]:
    key = derived_key(name)
    groups = [(group, False) for group in fragments.wanted]
    if fragments.unwanted:
        groups.append((tuple(fragments.unwanted), True))
    sets = [(IntervalSet.points((STRING, fragment) for fragment in group), negated) for group, negated in groups]
    return [ValueItem(key, values, negated=negated, is_joined=fragments.is_joined) for values, negated in sets]
