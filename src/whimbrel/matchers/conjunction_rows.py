"""The conjunctions of a matcher as flat arrays of rank intervals, equal ones once, ready to be laid out.

A row is a conjunction; its items are its constraints, sorted by attribute: (ATTR, KIND, LOW, HIGH) in one int32
matrix. An EQUAL or RANGE item is the interval LOW..HIGH of ranks; any other kind is a set of several intervals, and
LOW is the number of the set. Only plain constraints (values to pick from) have such a form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from whimbrel.language.columnar import ShapeGroup, Term
from whimbrel.matchers.coding import Codes, Coding, Int32s, Int64s, Span
from whimbrel.matchers.runs import offsets, take_runs, unique_runs
from whimbrel.matchers.terms import (
    EQUAL,
    OTHERS,
    POINTS,
    RANGE,
    SET,
    add_constants,
    complement,
    constraint_spans,
    operand_ranks,
    range_items,
    term_spans,
)
from whimbrel.model.conjunction import Conjunction

__all__ = [
    "ATTR",
    "EQUAL",
    "GONE",
    "HIGH",
    "KIND",
    "LOW",
    "OTHERS",
    "POINTS",
    "RANGE",
    "SET",
    "ConjunctionRows",
    "ConjunctionRowsBuilder",
]

Spans: TypeAlias = tuple[int, int, list[Span]]
"""An attribute, a kind and intervals of ranks."""

ATTR, KIND, LOW, HIGH = 0, 1, 2, 3

FEW = 8
"""Rows of one shape below which they are added one by one: vectorised steps cost the same for one row as for many."""

GONE = np.iinfo(np.int64).min
"""The owner of a row that is to be left out."""


@dataclass(frozen=True, slots=True)
class ConjunctionRows:
    """m different conjunctions with k items and s sets; `owner` says whose they are."""

    codes: Codes
    start: Int64s  # [m + 1]: the items of each row
    items: Int32s  # [k, 4]
    set_start: Int64s  # [s + 1]: the intervals of each set
    set_low: Int32s
    set_high: Int32s
    owner_start: Int64s  # [m + 1]
    owner: Int64s
    first: Int32s  # [attributes, 5]: the first rank of each type, and the count of ranks

    def __len__(self) -> int:
        return len(self.start) - 1

    def item_rows(self) -> Int64s:
        """The row of each item."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))


class ConjunctionRowsBuilder:
    """Collects rows from conjunctions and from columns of literals."""

    def __init__(self, conjunctions: Iterable[tuple[int, Conjunction]], groups: Sequence[tuple[Int64s, ShapeGroup]]):
        """Take (owner, conjunction) pairs, and groups with the owners of their rows."""
        self._owners: list[Int64s] = []
        self._lengths: list[Int64s] = []
        self._items: list[Int32s] = []
        self._sets: list[tuple[Int64s, Int32s, Int32s]] = []
        self._set_count = 0
        loose = list(conjunctions)
        coding = Coding()
        for _, conjunction in loose:
            coding.add(conjunction)
        for _, group in groups:
            add_constants(coding, group)
        self.codes = coding.codes()
        single: list[tuple[int, list[Spans]]] = []
        for owners, group in groups:
            for terms in group.shape.conjunctions:
                ordered = sorted(terms, key=lambda term: term.attribute)  # as attributes are numbered
                if len(owners) < FEW:
                    single += self._group_rows(owners, group, ordered, range(len(owners)))
                else:
                    repeats = self._add_columns(owners, group, ordered)
                    single += self._group_rows(owners, group, ordered, repeats)
        for owner, conjunction in loose:
            row = []
            for name, constraint in conjunction.constraints:
                attr = self.codes.numbers[name]
                row.append((attr, *constraint_spans(self.codes.ranks[attr], constraint)))
            single.append((owner, row))
        self._add_single(single)

    def _group_rows(
        self, owners: Int64s, group: ShapeGroup, terms: Sequence[Term], indices: Iterable[int]
    ) -> Iterator[tuple[int, list[Spans]]]:
        """Some rows of one conjunction of a shape, one by one; those that can hold."""
        for index in indices:
            row = []
            for term in terms:
                attr = self.codes.numbers[term.attribute]
                row.append((attr, *term_spans(self.codes.ranks[attr], group, term, index)))
            if owners[index] != GONE and all(spans[0][0] <= spans[0][1] for _, _, spans in row):
                yield int(owners[index]), row

    def _add_single(self, rows: Sequence[tuple[int, list[Spans]]]) -> None:
        items: list[tuple[int, int, int, int]] = []
        sets: list[list[Span]] = []
        for _, row in rows:
            for attr, kind, spans in row:
                if kind in (EQUAL, RANGE):
                    items.append((attr, kind, *spans[0]))
                else:
                    items.append((attr, kind, self._set_count + len(sets), 0))
                    sets.append(spans)
        if rows:
            self._owners.append(np.array([owner for owner, _ in rows], dtype=np.int64))
            self._lengths.append(np.array([len(row) for _, row in rows], dtype=np.int64))
            self._items.append(np.array(items, dtype=np.int32).reshape(-1, 4))
        if sets:
            flat = np.array([span for spans in sets for span in spans], dtype=np.int32)
            self._put_sets(np.array([len(spans) for spans in sets], dtype=np.int64), flat[:, 0], flat[:, 1])

    def _add_columns(self, owners: Int64s, group: ShapeGroup, terms: Sequence[Term]) -> list[int]:
        """Adds the rows of one conjunction of a shape but those that name a constant twice, which it returns."""
        size = len(owners)
        items = np.zeros((size, len(terms), 4), dtype=np.int32)
        good = owners != GONE
        repeats = np.zeros(size, dtype=np.bool_)
        for place, term in enumerate(terms):
            attr = self.codes.numbers[term.attribute]
            ranks = self.codes.ranks[attr]
            item = items[:, place]
            item[:, ATTR] = attr
            if term.kind == "range":
                range_items(ranks, group, term, item)
                good &= item[:, LOW] <= item[:, HIGH]
                continue
            points = np.sort(np.stack([operand_ranks(ranks, group, term, i) for i in range(len(term.operands))], 1))
            repeats |= (points[:, 1:] == points[:, :-1]).any(axis=1)
            if term.kind == "points" and points.shape[1] == 1:
                item[:, LOW] = item[:, HIGH] = points[:, 0]
                continue
            item[:, KIND] = POINTS if term.kind == "points" else OTHERS
            item[:, LOW] = self._set_count + np.arange(size)
            low, high = (points, points) if term.kind == "points" else complement(points, ranks.count)
            self._put_sets(np.full(size, low.shape[1], dtype=np.int64), low.ravel(), high.ravel())
        good &= ~repeats
        self._owners.append(owners[good])
        self._lengths.append(np.full(int(good.sum()), len(terms), dtype=np.int64))
        self._items.append(items[good].reshape(-1, 4))
        return [int(index) for index in np.flatnonzero(repeats)]

    def _put_sets(self, lengths: Int64s, low: Int32s, high: Int32s) -> None:
        self._sets.append((lengths, low, high))
        self._set_count += len(lengths)

    def rows(self) -> ConjunctionRows:
        """Everything collected, equal sets and equal rows as one."""
        owner = _joined(self._owners, np.int64)
        items = np.concatenate(self._items) if self._items else np.zeros((0, 4), dtype=np.int32)
        start = offsets(_joined(self._lengths, np.int64))
        set_start = offsets(_joined([lengths for lengths, _, _ in self._sets], np.int64))
        spans = np.stack(
            [_joined([s[1] for s in self._sets], np.int32), _joined([s[2] for s in self._sets], np.int32)], 1
        )
        group, keep = unique_runs(set_start, spans)
        is_set = items[:, KIND] >= POINTS
        items[is_set, LOW] = group[items[is_set, LOW]]
        set_start, spans = take_runs(set_start, spans, keep)
        group, keep = unique_runs(start, items)
        start, items = take_runs(start, items, keep)
        order = np.argsort(group, kind="stable")
        return ConjunctionRows(
            self.codes,
            start,
            items,
            set_start,
            np.ascontiguousarray(spans[:, 0]),
            np.ascontiguousarray(spans[:, 1]),
            offsets(np.bincount(group, minlength=len(keep))),
            owner[order],
            np.array([ranks.first for ranks in self.codes.ranks], dtype=np.int32).reshape(-1, 5),
        )


def _joined(parts: Sequence[npt.NDArray[Any]], dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)
