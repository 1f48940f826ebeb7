"""Compiles bulk loads, conjunctions of terms with their literals in columns, without a filter object for each.

A walk over the terms writes a few numbers for each (a *descriptor*) and collects the literal columns in pools, one for
each attribute and type. Then literals are ranked pool by pool, and `item_kernels` writes the items of all uses of terms
and combines them: in a conjunction the sets of one attribute are intersected, and conjunctions of one row that differ
in one set are united. So a load of many small groups costs little more than one of a few large groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from whimbrel.language.columnar.terms import Column, Conjunctions, DictionaryStrings, Operand, TermGroup
from whimbrel.model.intervals import IntervalSet
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP
from whimbrel.ranks.arrow import large_strings
from whimbrel.ranks.clauses.clauses import NO_RANGE, RANGE
from whimbrel.ranks.clauses.compiler import ClauseItems, IntervalSets, attribute_number, joined, taken_sets
from whimbrel.ranks.clauses.item_kernels import (
    BEHIND,
    BLOCK_END,
    CONSTANT,
    EVERY,
    EXCEPT,
    FIXED,
    LISTED,
    MARK,
    MEMBER,
    OUTSIDE,
    SPAN,
    UNSURE,
    Combined,
    RankArrays,
    UseArrays,
    combine,
    write_items,
)
from whimbrel.ranks.clauses.item_sets import IMPOSSIBLE, ItemArrays, SetBuffer
from whimbrel.ranks.dictionary import Dictionary, derived_key
from whimbrel.ranks.dictionary_builder import Constants, LiteralPool, is_beyond_floats
from whimbrel.ranks.links import HOLDS
from whimbrel.ranks.patterns.pattern_fragments import PATTERN_TERMS, deciding_texts, every_fragment, necessary_texts

_TYPES = {"number": NUMBER, "string": STRING, "timestamp": TIMESTAMP}
_CONSTANT_RANKS = {None: 0, False: 2, True: 4}
_VALUE_KINDS = {"range", "outside", "points", "excluded", "prefix", *PATTERN_TERMS}
"""Terms that test the value which a binding picks: several of them on one attribute must hold for the same value."""
End = tuple[int, int]
"""One end of a range: a pool and where the column begins in it, or a constant."""


class ColumnSource:
    """Conjunctions of terms with their literals in columns. `parts` fills `always`: the rows that all events match."""

    def __init__(self, conjunctions: Sequence[Conjunctions], index_rows: np.ndarray) -> None:
        self._conjunctions = list(conjunctions)  # until their constants are given
        self._index_rows = index_rows
        self._pools: dict[tuple[int, int, bool], LiteralPool] = {}
        self._descriptors: list[tuple[int, ...]] = []
        self._members: list[End] = []
        self._places: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._used = self._listed = self._spans = 0
        self._longest = 2
        self._width = np.ones(sum(one.size for one in conjunctions), np.int32)  # items of each use
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
        """Describe a term, and add its columns to the pools; `first` is added to the places of its uses."""
        term = group.term
        places = first + group.places
        if term.kind in ("always", "never"):
            if term.kind == "never":
                self._describe(MARK, 0, places, IMPOSSIBLE, 0)
            else:
                self._width[places] = 0
            return
        if term.kind == "link":
            self._add_link(group, places, attributes, gathered)
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
                self._describe(FIXED, attr, places, RANGE, 1, behind=1)
        elif term.kind in PATTERN_TERMS:
            self._add_patterns(group, attr, first, attributes, gathered)
        else:  # IS [NOT] NULL, IS [NOT] MISSING
            kind = NO_RANGE if term.kind in ("null", "missing") else RANGE
            self._describe(FIXED, attr, places, kind, 0 if term.kind in ("missing", "present") else 1)

    def _describe(
        self, what: int, attr: int, places: np.ndarray, *facts: int, lengths: np.ndarray | None = None, behind: int = 0
    ) -> None:
        """Write a descriptor: what to do, the attribute, its uses, and up to eight facts; count items and sets.

        `behind`: the number of items that other descriptors write for each use before this one.
        """
        row = (what, attr, self._used, len(places), -1 if lengths is None else self._listed, *facts)
        self._descriptors.append((*row, *[0] * (BEHIND - len(row)), behind))
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
        if what == EVERY:
            self._width[places] = behind + (size if lengths is None else lengths)
        elif behind:
            self._width[places] = behind + 1

    def _pooled(self, attr: int, type: int, column: Column) -> End:
        is_wide = type == NUMBER and isinstance(column, np.ndarray) and is_beyond_floats(column)
        pool = self._pools.setdefault((attr, type, is_wide), LiteralPool(len(self._pools), attr, type))
        return pool.number, pool.add(column)

    def _operand(self, group: TermGroup, attr: int, operand: Operand) -> End:
        """The pool of an operand's column, and where the column begins in it."""
        if operand.slot is None:
            return CONSTANT, _CONSTANT_RANKS[operand.value]
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
        """Describe a list: its members are the operands, or cells of one column."""
        begin, operands = len(self._members), group.term.operands
        self._members += [self._operand(group, attr, operand) for operand in operands]
        self._describe(what, attr, places, kind, begin, len(operands), lengths=group.lengths)

    def _add_link(
        self, group: TermGroup, places: np.ndarray, attributes: dict[str, int], gathered: list[Constants]
    ) -> None:
        """Describe a comparison of two attributes: its outcome is the value of a derived attribute."""
        term = group.term
        derived = attribute_number(derived_key(term.attribute, term.other), attributes, gathered)
        begin, values = len(self._members), HOLDS[term.op]
        self._members += [self._pooled(derived, NUMBER, np.full(len(places), value)) for value in values]
        self._describe(LISTED, derived, places, RANGE, begin, len(values))

    def _add_patterns(
        self, group: TermGroup, attr: int, first: int, attributes: dict[str, int], gathered: list[Constants]
    ) -> None:
        """Describe patterns: those that a fragment decides as members of the derived attribute, others as unsure."""
        (column,) = group.columns
        assert isinstance(column, DictionaryStrings)
        texts, number = column.distinct()
        found = deciding_texts(group.term.kind, texts)
        is_decided = np.array([one is not None for one in found], bool)[number]
        if group.lengths is not None:
            is_decided = np.logical_and.reduceat(is_decided, np.cumsum(group.lengths) - group.lengths)
        known = replace(group, columns=(DictionaryStrings(number, large_strings([one or "" for one in found])),))
        decided, others = known.only(is_decided), group.only(~is_decided)
        if decided is not None:
            self._add_fragments(decided, attr, first + decided.places, attributes, gathered)
        if others is not None:
            self._add_unsure(others, attr, first + others.places, attributes, gathered)

    def _add_fragments(
        self, group: TermGroup, attr: int, places: np.ndarray, attributes: dict[str, int], gathered: list[Constants]
    ) -> None:
        (column,) = group.columns
        assert isinstance(column, DictionaryStrings)
        is_negated = group.term.negated
        texts = _mapped(column, every_fragment) if is_negated else column
        derived = attribute_number(derived_key(group.term.attribute), attributes, gathered)
        self._members.append(self._pooled(derived, STRING, texts))
        kind = NO_RANGE if is_negated else MEMBER
        self._describe(LISTED, derived, places, kind, len(self._members) - 1, 1, lengths=group.lengths)
        if is_negated:
            self._describe(FIXED, attr, places, RANGE, 1, behind=1)
            gathered[derived].joined |= group.lengths is not None  # all must hold for the same value

    def _add_unsure(
        self, group: TermGroup, attr: int, places: np.ndarray, attributes: dict[str, int], gathered: list[Constants]
    ) -> None:
        """Describe patterns that must be verified, and the fragments that a string needs to match."""
        self._describe(MARK, attr, places, UNSURE, 0)
        if group.term.negated or group.lengths is not None:
            self._describe(FIXED, attr, places, RANGE, 1, behind=1)
            return
        (column,) = group.columns
        assert isinstance(column, DictionaryStrings)
        texts, number = column.distinct()
        wanted = [necessary_texts(group.term.kind, text) for text in texts]
        forms = [(bool(groups), all(len(one) == 1 for one in groups)) for groups in wanted]
        for form in set(forms):
            of_form = np.array([one == form for one in forms])
            its_places = places[of_form[number]]
            if not form[0]:
                ends = BLOCK_END, STRING, 0, BLOCK_END, TIMESTAMP, 1
                self._describe(SPAN, attr, its_places, *ends, STRING, TIMESTAMP, behind=1)
                continue
            its_groups = [groups for groups, its in zip(wanted, forms, strict=True) if its == form]
            own = [[text for one in groups for text in one] for groups in its_groups]
            of_use = (np.cumsum(of_form) - 1)[number[of_form[number]]]
            derived = attribute_number(derived_key(group.term.attribute), attributes, gathered)
            fragments = large_strings([text for texts in own for text in texts])
            sizes = np.array([len(texts) for texts in own])
            lengths, begin = sizes[of_use], (np.cumsum(sizes) - sizes)[of_use]
            within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            codes = (np.repeat(begin, lengths) + within).astype(np.int32)
            self._members.append(self._pooled(derived, STRING, DictionaryStrings(codes, fragments)))
            what = EVERY if form[1] else LISTED
            self._describe(what, derived, its_places, MEMBER, len(self._members) - 1, 1, lengths=lengths, behind=1)

    def _mark_joined(self, one: Conjunctions, attributes: dict[str, int], gathered: list[Constants]) -> None:
        """Mark derived attributes for which some conjunction has another test that must hold for the same value."""
        tested = {group.term.attribute for group in one.groups if group.term.kind in PATTERN_TERMS}
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
        items, own = np.empty((int(start[-1]), 4), np.int32), _empty_sets(self._spans)
        write_items(
            np.array(self._descriptors, np.int64).reshape(-1, BEHIND + 1),
            UseArrays(joined(self._places, np.int64), joined(self._lengths, np.int64)),
            np.array(self._members, np.int64).reshape(-1, 2),
            start,
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
        self, start: np.ndarray, items: np.ndarray, sets: SetBuffer, attributes: int
    ) -> tuple[Combined, SetBuffer]:
        """Combine items; return them and all sets, whose buffer grows until they fit."""
        most, total = int(np.bincount(self._rows).max(initial=1)), int(self._width[self._uses].sum())
        count = len(self._rows)
        out = Combined(
            np.empty(count, np.int64), np.empty(count, np.uint8), np.empty(count, np.int64), _empty_items(total),
            np.empty(count, np.int64),
        )  # fmt: skip
        space = count + int(sets.used[1])
        while True:
            begin, low, high = (_longer(array, 2 * space) for array in _cut(sets))
            more = SetBuffer(begin, low, high, sets.used.copy())
            made, made_items, always = combine(
                self._rows, self._counts, self._uses, start, items, more, attributes, most, out
            )
            if made >= 0:
                cut = Combined(
                    out.row[:made], out.flags[:made], out.counts[:made],
                    ItemArrays._make(array[:made_items] for array in out.items), out.always[:always],
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
    """A copy with space for more behind it. Untouched space costs nothing, so it is not copied too."""
    longer = np.empty(len(array) + more + 2, array.dtype)
    longer[: len(array)] = array
    return longer


def _mapped(column: DictionaryStrings, function: Callable[[str], str]) -> DictionaryStrings:
    """Apply a function to the strings of a column, once to each distinct one."""
    texts, places = column.distinct()
    return DictionaryStrings(places, large_strings(list(map(function, texts))))


def _after_prefix(prefix: str) -> str:
    """The least string above all strings that start with the prefix."""
    return str(IntervalSet.prefix(prefix).cuts[1][2])
