"""The frozen form of the group index: tables of all attributes in flat arrays, and the sweep over them in Numba.

Predicates lie group by group and groups attribute by attribute, so that the subscriptions of a group, and of a whole
attribute, are one stretch of `holders`. Ranks stand for values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from whimbrel.compiled.jit import kernel
from whimbrel.matchers.constant_ranks import in_spans, rank_constants
from whimbrel.matchers.runs import Int32s, Int64s
from whimbrel.matchers.sgim.predicate_groups import Predicate, PredicateTable
from whimbrel.model.values import SortKey
from whimbrel.ranks.lookup import Lookup

_HIGHEST = np.iinfo(np.int32).max
DELETED, CHOSEN, OPENED, EVALUATED, SKIPPED = range(5)
"""What the sweep counts: groups deleted, chosen and looked into, predicates evaluated and skipped."""


@dataclass(frozen=True)
class FrozenPredicates:
    """One attribute: its ranks, groups with their index, predicates as spans of ranks, and the rows of each."""

    ranks: Lookup
    index: Int32s  # [group, (lowest low, highest low, lowest high, highest high)]
    group_sizes: list[int]
    span_sizes: list[int]
    spans: Int32s  # [span, (low, high)]
    holder_sizes: list[int]
    holders: list[int]
    weight: float  # how many subscriptions an event is expected to rule out here


def freeze_table(table: PredicateTable) -> FrozenPredicates:
    """The frozen form of one attribute's predicates."""
    ranks = rank_constants({"": table.predicates})
    index: list[tuple[int, ...]] = []
    members: list[list[Predicate]] = []
    for group in table.groups():
        lows, highs = (group.min_low, group.max_low), (group.min_high, group.max_high)
        index.append((*(ranks.low(0, low) for low in lows), *(ranks.high(0, high) for high in highs)))
        members.append(list(group.members.values()))
    if table.rest:  # an index that neither deletes nor chooses
        index.append((0, _HIGHEST, -1, _HIGHEST))
        members.append(list(table.rest.values()))
    predicates = [predicate for group in members for predicate in group]
    spans = [ranks.spans(0, predicate.values) for predicate in predicates]
    weight = 0.0
    for predicate, found in zip(predicates, spans, strict=True):
        share = sum(high - low + 1 for low, high in found) / ranks.base(0, 4)
        weight += len(predicate.rows) * (1 - share)
    return FrozenPredicates(
        ranks.lookup(0),
        np.array(index, np.int32).reshape(-1, 4),
        [len(group) for group in members],
        [len(found) for found in spans],
        np.array([span for found in spans for span in found], np.int32).reshape(-1, 2),
        [len(predicate.rows) for predicate in predicates],
        [row for predicate in predicates for row in sorted(predicate.rows)],
        weight,
    )


class FrozenGroups:
    """All attributes, those that rule out the most subscriptions first."""

    def __init__(self, tables: dict[str, FrozenPredicates]) -> None:
        names = sorted(tables, key=lambda name: (-tables[name].weight, name))
        parts = [tables[name] for name in names]
        self.attributes = {name: place for place, name in enumerate(names)}
        self.ranks = [part.ranks for part in parts]
        self._groups = _offsets(len(part.index) for part in parts)
        self._members = _offsets(size for part in parts for size in part.group_sizes)
        self._index = np.concatenate([np.zeros((0, 4), np.int32), *(part.index for part in parts)])
        self._spans = _offsets(size for part in parts for size in part.span_sizes)
        self._bounds = np.concatenate([np.zeros((0, 2), np.int32), *(part.spans for part in parts)])
        self._held = _offsets(size for part in parts for size in part.holder_sizes)
        self._holders = np.array([row for part in parts for row in part.holders], np.int32)
        self._found = np.empty(0, np.int32)

    def search(self, values: Mapping[str, Iterable[SortKey]], gone: np.ndarray, counts: Int64s) -> list[int]:
        """The rows that no predicate rules out; `gone` marks the rows that stand for nothing."""
        starts = np.zeros(len(self.ranks) + 1, np.int32)
        found: list[list[int]] = [[] for _ in self.ranks]
        for name, keys in values.items():
            place = self.attributes[name]
            rank = self.ranks[place].rank
            found[place] = [rank(key) for key in keys if key[0] >= 0]
            starts[place + 1] = len(found[place])
        np.cumsum(starts, out=starts)
        if len(self._found) < len(gone):
            self._found = np.empty(len(gone), np.int32)
        event = np.array([rank for ranks in found for rank in ranks], np.int32)
        matched = sweep(
            starts, event, self._groups, self._members, self._index, self._spans, self._bounds, self._held,
            self._holders, gone.copy(), self._found, counts,
        )  # fmt: skip
        return self._found[:matched].tolist()  # type: ignore[no-any-return]

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays."""
        return sum(value.nbytes for value in vars(self).values() if isinstance(value, np.ndarray))


def _offsets(sizes: Iterable[int]) -> Int64s:
    return np.cumsum([0, *sizes], dtype=np.int64)


@kernel
def sweep(
    starts: Int32s,
    event: Int32s,
    groups: Int64s,
    members: Int64s,
    index: Int32s,
    spans: Int64s,
    bounds: Int32s,
    held: Int64s,
    holders: Int32s,
    dead: np.ndarray,
    found: Int32s,
    counts: Int64s,
) -> int:
    """Mark the rows that an attribute rules out as dead, write the others into `found`, and return their number."""
    attributes = starts.shape[0] - 1
    deleted, chosen, opened, evaluated, skipped = 0, 0, 0, 0, 0
    for attribute in range(attributes):  # an attribute that the event lacks rules out all that mention it
        if starts[attribute] == starts[attribute + 1]:
            for place in range(held[members[groups[attribute]]], held[members[groups[attribute + 1]]]):
                dead[holders[place]] = 1
    for attribute in range(attributes):
        first, last = starts[attribute], starts[attribute + 1]
        if first == last:
            continue
        for group in range(groups[attribute], groups[attribute + 1]):
            outside, inside = True, False
            for place in range(first, last):
                value = event[place]
                outside = outside and (value < index[group, 0] or value > index[group, 3])
                inside = inside or (index[group, 1] <= value <= index[group, 2])
            if outside:
                deleted += 1
                for place in range(held[members[group]], held[members[group + 1]]):
                    dead[holders[place]] = 1
                continue
            if inside:
                chosen += 1
                continue
            opened += 1
            for predicate in range(members[group], members[group + 1]):
                place, end = held[predicate], held[predicate + 1]
                while place < end and dead[holders[place]]:
                    place += 1
                if place == end:
                    skipped += 1
                    continue
                evaluated += 1
                holds = False
                for at in range(first, last):
                    holds = holds or in_spans(event[at], bounds, spans[predicate], spans[predicate + 1])
                if not holds:
                    for rest in range(place, end):
                        dead[holders[rest]] = 1
    matched = 0
    for row in range(dead.shape[0]):
        if not dead[row]:
            found[matched] = row
            matched += 1
    for place, count in enumerate((deleted, chosen, opened, evaluated, skipped)):
        counts[place] += count
    return matched
