"""SGIM, after Hassan, Song and Huh.

Dynamic Python objects (`predicate_groups`) have a frozen form for matching: tables of all attributes in flat arrays, in
which ranks stand for values. Predicates lie group by group and groups attribute by attribute, so that the conjunctions
of a group are one stretch of `holders`. A group of many conjunctions also has a mask with a bit for each, so that it is
deleted as a whole, 64 conjunctions at a time. An attribute whose predicates changed is frozen anew at the next match.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.matchers.sgim.predicate_groups import Predicate, PredicateTable, group_index
from whimbrel.matchers.shared.base import BaseMatcher, Stats
from whimbrel.matchers.shared.capabilities import Capabilities
from whimbrel.matchers.shared.conjunction_rows import SetArrays, in_set
from whimbrel.matchers.shared.event_ranks import rank_constants
from whimbrel.matchers.shared.option_checks import check_choice
from whimbrel.matchers.shared.papers import Paper
from whimbrel.matchers.shared.runs import bytes_of, joined, offsets
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.ranks.lookup import Lookup

Words: TypeAlias = npt.NDArray[np.uint64]

_HIGHEST = np.iinfo(np.int32).max


class Sgim(BaseMatcher):
    """Statistical group index matching: four bounds choose or delete a whole group of predicates.

    A predicate is stored once with the conjunctions that share it. For every attribute, those that rule out the most
    conjunctions first, a group whose bounds exclude the event's values is deleted, with all its conjunctions; one whose
    bounds include a value is chosen; in any other the predicates are evaluated, but for those whose conjunctions are
    all ruled out already. What is left at the end matches. Cost: a match is linear in the conjunctions, an add is O(1)
    but for regrouping, and the next match compiles the attributes that it touched.

    `grouping`: "equal_width" (SGIM) or "dynamic" (equal frequencies, DGIM). The groups are a reconstruction (AMB-9).

    >>> from whimbrel.matchers import make
    >>> sgim = make("sgim", grouping="dynamic")
    >>> sgim.add("cheap", "price < 5")
    >>> sgim.add("mid", "price BETWEEN 4 AND 9 AND color != 'red'")
    >>> sgim.match({"price": 4, "color": "blue"}), sgim.match({"price": 4})
    (['cheap', 'mid'], ['cheap'])
    """

    name = "sgim"
    paper = Paper.SURVEY
    section = "III.E"
    capabilities = Capabilities(patterns=False, members=False, nonmembers=False, states=False, links=False)
    counted = (
        "groups_deleted", "groups_chosen", "groups_evaluated", "predicate_evaluations", "predicates_skipped",
        "marks_of_deleted",
    )  # fmt: skip
    reuses_numbers = True

    def __init__(self, timestamps: Iterable[str] = (), grouping: str = "equal_width", count: bool = True) -> None:
        super().__init__(timestamps, count)
        self.grouping = check_choice(self.name, "grouping", grouping, ("equal_width", "dynamic"))
        self._tables: dict[str, PredicateTable] = {}
        self._gone = np.zeros(0, np.uint64)
        self._frozen_tables: dict[str, FrozenPredicates] = {}
        self._frozen: FrozenGroups | None = None

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        for attribute, constraint in conjunction.constraints:
            table = self._tables.setdefault(attribute, PredicateTable(self.grouping == "dynamic"))
            table.add(constraint.values, number)
            self._thaw(attribute)

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        for attribute, constraint in conjunction.constraints:
            table = self._tables[attribute]
            table.remove(constraint.values, number)
            self._thaw(attribute)
            if not table.predicates:
                del self._tables[attribute]

    def _thaw(self, attribute: str) -> None:
        self._frozen = None
        self._frozen_tables.pop(attribute, None)

    def _freeze(self) -> FrozenGroups:
        if self._frozen is None:
            for attribute, table in self._tables.items():
                if attribute not in self._frozen_tables:
                    self._frozen_tables[attribute] = freeze_table(table)
            self._frozen = FrozenGroups(self._frozen_tables, self._next_number)
            self._gone = ~bit_mask(np.fromiter(self._conjunctions, np.int64), self._next_number)
        return self._frozen

    def _search(self, event: Event) -> Iterable[int]:
        frozen = self._freeze()
        found = frozen.search(event, self._gone, self._counters)
        if event.has_elements:  # values from one element: more than one attribute at a time can say
            return [number for number in found if self._conjunctions[number].matches(event)]
        return found

    def _member_stats(self) -> Stats:
        frozen = self._freeze()
        classes = [classes for table in self._tables.values() for classes in table.classes.values()]
        return {
            "attributes": len(self._tables),
            "predicates": sum(len(table.predicates) for table in self._tables.values()),
            "groups": sum(len(table.groups()) for table in self._tables.values()),
            "regroupings": sum(found.regroupings for found in classes),
            "bytes": bytes_of(frozen.arrays),
        }

    def _check(self) -> None:
        super()._check()
        assert self._tables.keys() == self._uses.keys()
        for attribute, table in self._tables.items():
            table.check()
            assert sum(len(predicate.rows) for predicate in table.predicates.values()) == self._uses[attribute]
        for number, conjunction in self._conjunctions.items():
            for attribute, constraint in conjunction.constraints:
                assert number in self._tables[attribute].predicates[constraint.values].rows


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
        min_low, max_low, min_high, max_high = group_index(group)
        lows, highs = (min_low, max_low), (min_high, max_high)
        index.append((*(ranks.low(0, low) for low in lows), *(ranks.high(0, high) for high in highs)))
        members.append(list(group.values()))
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


class GroupArrays(NamedTuple):
    """Groups attribute by attribute, predicates group by group, and the rows that hold each predicate."""

    groups: Int64s  # where the groups of each attribute start
    members: Int64s  # where the predicates of each group start
    bounds: Int32s  # [group, 4]: the index of each group
    spans: SetArrays  # of each predicate
    held: Int64s  # where the holders of each predicate start
    holders: Int32s
    mask: Int64s  # [group]: the first word of its mask; -1 if it has fewer holders than a mask has words
    words: Words


class FrozenGroups:
    """The frozen predicates of all attributes. An attribute that rules out more subscriptions comes earlier."""

    def __init__(self, tables: dict[str, FrozenPredicates], rows: int) -> None:
        names = sorted(tables, key=lambda name: (-tables[name].weight, name))
        parts = [tables[name] for name in names]
        self.attributes = {name: place for place, name in enumerate(names)}
        self.ranks = [part.ranks for part in parts]
        spans = np.concatenate([np.zeros((0, 2), np.int32), *(part.spans for part in parts)])
        members = offsets([size for part in parts for size in part.group_sizes])
        held = offsets([size for part in parts for size in part.holder_sizes])
        holders = np.array([row for part in parts for row in part.holders], np.int32)
        self.arrays = GroupArrays(
            offsets([len(part.index) for part in parts]),
            members,
            np.concatenate([np.zeros((0, 4), np.int32), *(part.index for part in parts)]),
            SetArrays(offsets([size for part in parts for size in part.span_sizes]), *np.ascontiguousarray(spans.T)),
            held,
            holders,
            *_masks(held[members], holders, rows),
        )
        self._found = np.empty(0, np.int32)

    def search(self, event: Event, gone: np.ndarray, counters: Int64s | None) -> list[int]:
        """The rows that no predicate rules out; `gone` marks the rows that stand for nothing."""
        found: list[list[int]] = [[] for _ in self.ranks]
        for name in event.attributes:
            place = self.attributes.get(name)
            if place is not None:
                rank = self.ranks[place].rank
                found[place] = [rank(key) for key in event.non_null_keys(name)]
        if len(self._found) < 64 * len(gone):
            self._found = np.empty(64 * len(gone), np.int32)
        matched = sweep(*joined(found), self.arrays, gone.copy(), self._found, counters)
        return self._found[:matched].tolist()  # type: ignore[no-any-return]


def bit_mask(rows: Int64s | Int32s, count: int) -> Words:
    """A mask of `count` bits in which the bits of these rows are set."""
    bits = np.zeros(-(-count // 64) * 64, np.uint8)
    bits[rows] = 1
    return np.packbits(bits, bitorder="little").view(np.uint64)


def _masks(start: Int64s, holders: Int32s, rows: int) -> tuple[Int64s, Words]:
    """Make the masks of large groups. Return where the mask of each group starts, -1 if it has none, and all words."""
    width = -(-rows // 64)
    large = np.flatnonzero(np.diff(start) > width)
    mask = np.full(len(start) - 1, -1, np.int64)
    mask[large] = np.arange(len(large)) * width
    found = [bit_mask(holders[start[group] : start[group + 1]], rows) for group in large]
    return mask, np.concatenate([np.zeros(0, np.uint64), *found])


@inlined
def _is_dead(dead: Words, row: int) -> bool:
    return bool((dead[row >> 6] >> np.uint64(row & 63)) & np.uint64(1))


@inlined
def _kill(dead: Words, row: int) -> None:
    dead[row >> 6] |= np.uint64(1) << np.uint64(row & 63)


@helper
def _delete(arrays: GroupArrays, group: int, dead: Words) -> int:
    """Mark all rows of a group as dead. Return how many words or rows that takes."""
    first = arrays.mask[group]
    if first >= 0:
        for word in range(dead.size):
            dead[word] |= arrays.words[first + word]
        return int(dead.size)
    start, end = arrays.held[arrays.members[group]], arrays.held[arrays.members[group + 1]]
    for place in range(start, end):
        _kill(dead, arrays.holders[place])
    return int(end - start)


@kernel
def sweep(
    starts: Int64s, event: Int32s, arrays: GroupArrays, dead: Words, found: Int32s, counters: Int64s | None
) -> int:
    """Mark the rows that an attribute rules out as dead, write the others into `found`, and return their number."""
    groups, members, bounds, spans, held, holders, _, _ = arrays
    attributes = starts.shape[0] - 1
    deleted, chosen, opened, evaluated, skipped, marks = 0, 0, 0, 0, 0, 0
    for attribute in range(attributes):  # an attribute that the event lacks rules out all that mention it
        if starts[attribute] == starts[attribute + 1]:
            for group in range(groups[attribute], groups[attribute + 1]):
                marks += _delete(arrays, group, dead)
    for attribute in range(attributes):
        first, last = starts[attribute], starts[attribute + 1]
        if first == last:
            continue
        for group in range(groups[attribute], groups[attribute + 1]):
            outside, inside = True, False
            for place in range(first, last):
                value = event[place]
                outside = outside and (value < bounds[group, 0] or value > bounds[group, 3])
                inside = inside or (bounds[group, 1] <= value <= bounds[group, 2])
            if outside:
                deleted += 1
                marks += _delete(arrays, group, dead)
                continue
            if inside:
                chosen += 1
                continue
            opened += 1
            for predicate in range(members[group], members[group + 1]):
                place, end = held[predicate], held[predicate + 1]
                while place < end and _is_dead(dead, holders[place]):
                    place += 1
                if place == end:
                    skipped += 1
                    continue
                evaluated += 1
                holds = False
                for at in range(first, last):
                    holds = holds or in_set(event[at], predicate, spans)
                if not holds:
                    for rest in range(place, end):
                        _kill(dead, holders[rest])
    matched = 0
    for word in range(dead.size):
        if dead[word] != np.uint64(0xFFFFFFFFFFFFFFFF):
            for row in range(64 * word, 64 * word + 64):
                if not _is_dead(dead, row):
                    found[matched] = row
                    matched += 1
    if counters is not None:
        for place, count in enumerate((deleted, chosen, opened, evaluated, skipped, marks)):
            counters[place] += count
    return matched
