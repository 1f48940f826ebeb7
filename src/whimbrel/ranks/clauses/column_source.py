"""Bulk loads: conjunctions of terms with their literals in columns, compiled without a filter object for each.

A walk over the terms writes a few numbers for each (a descriptor) and collects the literal columns in pools, one for
each attribute and type. Ranks are then found pool by pool, and `item_kernels` writes the items of all uses of terms and
combines them: in a conjunction the sets of one attribute are intersected, and conjunctions of one row that differ in
one set are united. So a load of many small groups costs little more than one of a few large groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from whimbrel.language.columnar.terms import Column, Conjunctions, DictionaryStrings, Operand, TermGroup
from whimbrel.model.constraint import Constraint
from whimbrel.model.intervals import STRINGS, IntervalSet
from whimbrel.model.patterns import Regex, parse_like
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP
from whimbrel.ranks.arrow import large_strings
from whimbrel.ranks.clauses.clauses import NO_RANGE, RANGE
from whimbrel.ranks.clauses.compiler import ClauseItems, attribute_number
from whimbrel.ranks.clauses.interval_sets import IntervalSets, joined, taken_sets
from whimbrel.ranks.clauses.item_kernels import (
    BLOCK_END,
    CONSTANT,
    EVERY,
    EXCEPT,
    FIXED,
    IMPOSSIBLE,
    LISTED,
    MARK,
    MEMBER,
    OUTSIDE,
    SPAN,
    UNSURE,
    Combined,
    ItemArrays,
    RankArrays,
    SetBuffer,
    UseArrays,
    combine,
    write_items,
)
from whimbrel.ranks.clauses.literal_pools import LiteralPool
from whimbrel.ranks.constants import Constants
from whimbrel.ranks.dictionary import Dictionary, derived_key
from whimbrel.ranks.patterns.networks import EVERY_NETWORK, SOME_NETWORK, fragment_of
from whimbrel.ranks.patterns.pattern_fragments import fragments_of
from whimbrel.ranks.patterns.pattern_trie import EVERY_END, EVERY_INSIDE, SOME_END, SOME_INSIDE

_TYPES = {"number": NUMBER, "string": STRING, "timestamp": TIMESTAMP}
_BOOLEAN_RANKS = {False: 2, True: 4}
_FRAGMENT_ENDS = {
    "suffix": (SOME_END, EVERY_END), "substring": (SOME_INSIDE, EVERY_INSIDE), "network": (SOME_NETWORK, EVERY_NETWORK)
}  # fmt: skip
_PATTERNS = {*_FRAGMENT_ENDS, "like", "regex"}
_VALUE_KINDS = {"range", "outside", "points", "excluded", "prefix", *_PATTERNS}
"""Terms that want a value to be picked: several of them on one attribute want the same value."""
_FACTS = 14
"""Numbers of a descriptor."""
End = tuple[int, int]
"""One end of a range: a pool and where the column begins in it, or a constant."""


class ColumnSource:
    """Conjunctions of terms with their literals in columns. `always` has rows that all events match, after `parts`."""

    def __init__(self, conjunctions: Sequence[Conjunctions], index_rows: np.ndarray) -> None:
        self._conjunctions = list(conjunctions)  # until their constants are given
        self._index_rows = index_rows
        self._pools: dict[tuple[int, int], LiteralPool] = {}
        self._descriptors: list[tuple[int, ...]] = []
        self._members: list[End] = []
        self._places: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._used = self._listed = self._spans = 0
        self._longest = 2
        self._width = np.zeros(sum(one.size for one in conjunctions), np.int32)
        self.always: np.ndarray = np.empty(0, np.int32)

    def constants(self, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Number the attributes, and add the constants of each to the gathered ones."""
        first = 0
        for one in self._conjunctions:
            for group in one.groups:
                self._add(group, first, attributes, gathered)
            self._mark_joined(one, attributes, gathered)
            first += one.size
        for pool in self._pools.values():
            pool.give(gathered[pool.attr])
        shift = np.cumsum([0, *(one.size for one in self._conjunctions)])
        parts = zip(self._conjunctions, shift.tolist(), strict=False)
        self._uses = np.concatenate([one.uses.astype(np.int64) + begin for one, begin in parts])
        self._counts = np.concatenate([one.counts for one in self._conjunctions])
        self._rows = np.concatenate([one.rows for one in self._conjunctions])
        self._conjunctions = []

    def _add(self, group: TermGroup, first: int, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Describe a term, and give its columns to the pools; `first` is the place of the first use of the load."""
        term = group.term
        places = first + group.places
        if term.kind in ("always", "never"):
            if term.kind == "never":
                self._describe(MARK, 0, places, IMPOSSIBLE, 0)
            return
        attr = attribute_number(term.attribute, attributes, gathered)
        if term.kind in ("range", "outside", "prefix"):
            self._add_range(group, attr, places, gathered)
        elif term.kind in ("points", "excluded"):
            self._add_list(group, attr, places, LISTED if term.kind == "points" else EXCEPT, RANGE)
        elif term.kind in ("all", "any", "none"):
            what = EVERY if term.kind == "all" else LISTED
            self._add_list(group, attr, places, what, NO_RANGE if term.kind == "none" else MEMBER)
            if term.kind == "none":
                self._describe(FIXED, attr, places, RANGE, 1)
        elif term.kind in _FRAGMENT_ENDS:
            self._add_fragments(group, attr, places, attributes, gathered)
        elif term.kind in ("like", "regex"):
            self._add_patterns(group, attr, places, attributes, gathered)
        else:  # IS [NOT] NULL, IS [NOT] MISSING
            kind = NO_RANGE if term.kind in ("null", "missing") else RANGE
            self._describe(FIXED, attr, places, kind, 0 if term.kind in ("missing", "present") else 1)

    def _describe(
        self, what: int, attr: int, places: np.ndarray, *facts: int, lengths: np.ndarray | None = None
    ) -> None:
        """Write a descriptor: what to write, the attribute, its uses, and up to eight facts; count items and sets."""
        row = (what, attr, self._used, len(places), -1 if lengths is None else self._listed, *facts)
        self._descriptors.append((*row, *[0] * (_FACTS - len(row))))
        self._places.append(places)
        self._used += len(places)
        size = facts[2] if what in (LISTED, EXCEPT, EVERY) else 1
        self._longest = max(self._longest, size)
        self._spans += (size + 1) * len(places)
        if lengths is not None:
            self._lengths.append(lengths)
            self._listed += len(lengths)
            self._longest = max(self._longest, int(lengths.max()))
            self._spans += int(lengths.sum())
        self._width[places] += (size if lengths is None else lengths) if what == EVERY else 1

    def _pooled(self, attr: int, type: int, column: Column) -> End:
        pool = self._pools.setdefault((attr, type), LiteralPool(len(self._pools), attr, type))
        return pool.number, pool.add(column)

    def _operand(self, group: TermGroup, attr: int, operand: Operand) -> End:
        """The pool of an operand's column, and where the column begins in it."""
        if operand.slot is None:
            return CONSTANT, _BOOLEAN_RANKS[bool(operand.value)]
        return self._pooled(attr, _TYPES[group.types[operand.slot]], group.columns[operand.slot])

    def _add_range(self, group: TermGroup, attr: int, places: np.ndarray, gathered: list[Constants]) -> None:
        term = group.term
        if term.kind == "prefix":
            (column,) = group.columns
            assert isinstance(column, DictionaryStrings)
            low = self._pooled(attr, STRING, column)
            high = self._pooled(attr, STRING, _mapped(column, _after_prefix))
            gathered[attr].ordered = True
            types = (0, 4) if term.negated else (STRING, TIMESTAMP)
            self._describe(OUTSIDE if term.negated else SPAN, attr, places, *low, 0, *high, 1, *types)
            return
        some = term.lower or term.upper
        assert some is not None and some.slot is not None
        type = _TYPES[group.types[some.slot]]
        gathered[attr].ordered = gathered[attr].ordered or type == STRING
        low = self._operand(group, attr, term.lower) if term.lower else (BLOCK_END, type)
        high = self._operand(group, attr, term.upper) if term.upper else (BLOCK_END, type + 1)
        above = int(term.lower is not None and not term.lower_inclusive)
        below = int(term.upper is None or not term.upper_inclusive)
        what = OUTSIDE if term.kind == "outside" else SPAN
        self._describe(what, attr, places, *low, above, *high, below, type, type + 1)

    def _add_list(self, group: TermGroup, attr: int, places: np.ndarray, what: int, kind: int) -> None:
        """Describe members: the operands, or cells of one column."""
        begin, operands = len(self._members), group.term.operands
        self._members += [self._operand(group, attr, operand) for operand in operands]
        self._describe(what, attr, places, kind, begin, len(operands), lengths=group.lengths)

    def _add_fragments(
        self, group: TermGroup, attr: int, places: np.ndarray, attributes: dict[str, int], gathered: list[Constants]
    ) -> None:
        """Describe the test of a fragment, which is a member of the derived attribute."""
        term = group.term
        (column,) = group.columns
        assert isinstance(column, DictionaryStrings)
        derived = attribute_number(derived_key(term.attribute), attributes, gathered)
        end = _FRAGMENT_ENDS[term.kind][term.negated]
        is_network = term.kind == "network"
        texts = _mapped(column, lambda text: (fragment_of(text) if is_network else text) + end)
        self._members.append(self._pooled(derived, STRING, texts))
        self._describe(LISTED, derived, places, NO_RANGE if term.negated else MEMBER, len(self._members) - 1, 1)
        if term.negated:
            self._describe(FIXED, attr, places, RANGE, 1)

    def _add_patterns(
        self, group: TermGroup, attr: int, places: np.ndarray, attributes: dict[str, int], gathered: list[Constants]
    ) -> None:
        """Describe patterns whose fragments are only necessary, or which have a prefix too; most must be verified."""
        term = group.term
        if term.negated:
            self._describe(FIXED, attr, places, RANGE, 1)
            self._describe(MARK, attr, places, UNSURE, 0)
            return
        (column,) = group.columns
        assert isinstance(column, DictionaryStrings)
        texts, number = column.distinct()
        read = [_read_pattern(text, term.kind == "regex") for text in texts]
        forms = [one.form for one in read]
        for form in set(forms):
            of_form = np.array([one == form for one in forms])
            own = [one for one in read if one.form == form]
            its_places = places[of_form[number]]
            its_number = (np.cumsum(of_form) - 1)[number[of_form[number]]].astype(np.int32)
            ends = [
                self._pooled(attr, STRING, DictionaryStrings(its_number, large_strings(list(end))))
                for end in zip(*(one.ends for one in own), strict=True)
            ]
            low, high = ends or [(BLOCK_END, STRING), (BLOCK_END, TIMESTAMP)]
            gathered[attr].ordered |= form.has_prefix
            if form.has_prefix or not form.has_fragments:
                self._describe(SPAN, attr, its_places, *low, 0, *high, 1, STRING, TIMESTAMP)
            if form.has_fragments:
                derived = attribute_number(derived_key(term.attribute), attributes, gathered)
                gathered[derived].joined |= form.is_exact
                fragments = large_strings([fragment for one in own for fragment in one.fragments])
                sizes = np.array([len(one.fragments) for one in own])
                lengths, first = sizes[its_number], (np.cumsum(sizes) - sizes)[its_number]
                within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
                codes = (np.repeat(first, lengths) + within).astype(np.int32)
                self._members.append(self._pooled(derived, STRING, DictionaryStrings(codes, fragments)))
                what = EVERY if form.is_every else LISTED
                self._describe(what, derived, its_places, MEMBER, len(self._members) - 1, 1, lengths=lengths)
            if not form.is_exact:
                self._describe(MARK, attr, its_places, UNSURE, 0)

    def _mark_joined(self, one: Conjunctions, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Mark derived attributes where a conjunction has another test that wants the same value."""
        tested = {group.term.attribute for group in one.groups if group.term.kind in _PATTERNS}
        if not tested:
            return
        attr_of = np.full(one.size, -1, np.int64)
        for group in one.groups:
            if group.term.attribute in tested and group.term.kind in _VALUE_KINDS:
                attr_of[group.places] = attributes[group.term.attribute]
        attr = attr_of[one.uses]
        own = np.flatnonzero(attr >= 0)
        keys = np.sort(np.repeat(np.arange(len(one.rows)), one.counts)[own] * len(attributes) + attr[own])
        twice = set((keys[1:][keys[1:] == keys[:-1]] % len(attributes)).tolist())
        for name in tested:
            if attributes[name] in twice and derived_key(name) in attributes:
                gathered[attributes[derived_key(name)]].joined = True

    def parts(self, dictionary: Dictionary, sets: IntervalSets) -> list[ClauseItems]:
        """The conjunctions in rank space."""
        base = np.cumsum([0, *(pool.size for pool in self._pools.values())])
        pooled = np.concatenate([*(pool.ranks(dictionary) for pool in self._pools.values()), np.empty(0, np.int32)])
        start = np.zeros(len(self._width) + 1, np.int64)
        np.cumsum(self._width, out=start[1:])
        items, own = _empty_items(int(start[-1])), _empty_sets(self._spans)
        write_items(
            np.array(self._descriptors, np.int64).reshape(-1, _FACTS),
            UseArrays(joined(self._places, np.int64), joined(self._lengths, np.int64)),
            np.array(self._members, np.int64).reshape(-1, 2),
            start[:-1].copy(),
            RankArrays(pooled, base, dictionary.rank_base),
            items,
            own,
            self._longest,
        )
        made, own = self._combined(start, items, own, len(dictionary.rank_base))
        self.always = self._index_rows[made.always].astype(np.int32)
        attr, kind, low, high = made.items
        names_set = np.flatnonzero(kind & 1)
        number, *taken = taken_sets(low[names_set], *_cut(own))
        low[names_set] = number + sets.add_ragged(*taken)
        rows = self._index_rows[made.row].astype(np.int32, copy=False)
        return [ClauseItems(rows, made.flags, made.counts, attr, kind, low, high)]

    def _combined(
        self, start: np.ndarray, items: ItemArrays, sets: SetBuffer, attributes: int
    ) -> tuple[Combined, SetBuffer]:
        """The combined items and all sets, with as much space for sets as it takes."""
        most, total = int(np.bincount(self._rows).max(initial=1)), int(self._width[self._uses].sum())
        count = len(self._rows)
        out = Combined(
            np.empty(count, np.int64), np.empty(count, np.uint8), np.empty(count, np.int64), _empty_items(total),
            np.empty(count, np.int64),
        )  # fmt: skip
        space = count
        while True:
            begin, low, high = (_longer(array, 2 * space) for array in _cut(sets))
            more = SetBuffer(begin, low, high, sets.used.copy())
            made, made_items, always = combine(
                self._rows, self._counts, self._uses, start, items, more, attributes, most, out
            )
            if made >= 0:
                cut = Combined(
                    out.row[:made], out.flags[:made], out.counts[:made],
                    ItemArrays(*(array[:made_items] for array in out.items)), out.always[:always],
                )  # fmt: skip
                return cut, more
            space *= 4


def _empty_items(count: int) -> ItemArrays:
    return ItemArrays(
        np.empty(count, np.int32), np.empty(count, np.uint8), np.empty(count, np.int32), np.empty(count, np.int32)
    )


def _empty_sets(spans: int) -> SetBuffer:
    start, low, high = np.zeros(spans + 2, np.int64), np.empty(spans + 2, np.int32), np.empty(spans + 2, np.int32)
    return SetBuffer(start, low, high, np.zeros(2, np.int64))


def _cut(sets: SetBuffer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, low and high of the sets that are used."""
    count, spans = sets.used.tolist()
    return sets.start[: count + 1], sets.low[:spans], sets.high[:spans]


def _longer(array: np.ndarray, more: int) -> np.ndarray:
    return np.concatenate([array, np.empty(more + 2, array.dtype)])


def _mapped(column: DictionaryStrings, function: Callable[[str], str]) -> DictionaryStrings:
    """The column with a function applied to its strings, to each different one once."""
    texts, places = column.distinct()
    return DictionaryStrings(places, large_strings(list(map(function, texts))))


def _after_prefix(prefix: str) -> str:
    """The least string that is above all that start with the prefix."""
    return str(IntervalSet.prefix(prefix).cuts[1][2])


class _Form(NamedTuple):
    """What a pattern is described by: fragments, all or one of which a string must have, and whether they decide."""

    has_prefix: bool
    has_fragments: bool
    is_every: bool
    is_exact: bool


class _ReadPattern(NamedTuple):
    form: _Form
    ends: tuple[str, ...]
    """The ends of the strings with its prefix, if it has one."""
    fragments: tuple[str, ...]


@lru_cache(4_096)
def _read_pattern(text: str, is_regex: bool) -> _ReadPattern:
    values, pattern = (STRINGS, Regex(text)) if is_regex else parse_like(text)
    assert pattern is not None
    found = fragments_of(Constraint(values=values, include=(pattern,)))
    ends = () if values == STRINGS else (str(values.cuts[0][2]), str(values.cuts[1][2]))
    is_every = all(len(group) == 1 for group in found.wanted)
    fragments = tuple(fragment for group in found.wanted for fragment in group)
    return _ReadPattern(_Form(bool(ends), bool(fragments), is_every, found.is_exact), ends, fragments)
