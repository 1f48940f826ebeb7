"""The filters of the frozen workloads as flat arrays, for rivals that have no language of their own.

They are read with Arrow's regular expressions, not with Whimbrel's parser: what the parser gets wrong, the comparison
of answers shows. Only what the workloads use is understood; anything else is an error.

Every value is a float64. A string is the number of its constant among those that filters compare the attribute with,
or `UNKNOWN`, which is below them; `MISSING` is below every bound. A list column becomes one column of 0 and 1 for each
member that a filter asks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RANGE, POINTS = 0, 1
UNKNOWN, MISSING = -1.0, -np.inf
LOWEST, HIGHEST = np.finfo(np.float64).min, np.finfo(np.float64).max

_ROWS = 65_536
"""Filters that are read at a time."""
_OPERATORS = ("=", "!=", "<", "<=", ">", ">=", "IN", "BETWEEN", "CONTAINS ALL")
PREDICATE = r"^(?P<name>\w+) (?P<operator>!=|<=|>=|=|<|>|IN|BETWEEN|CONTAINS ALL) (?P<operand>.+)$"
"""A predicate of a frozen workload; `BETWEEN low AND high` is written with ~ in the place of AND."""


@dataclass(frozen=True, slots=True)
class FlatFilters:
    """n conjunctions: the items of number i are start[i]:start[i + 1], sorted by attribute.

    A RANGE is low <= v <= high, an equality one of a single value; POINTS is one of `points[low : high]`.
    """

    names: list[str]
    constants: dict[str, pa.Array]  # strings by attribute, sorted
    start: np.ndarray
    owner: np.ndarray  # of each item
    attribute: np.ndarray
    kind: np.ndarray
    low: np.ndarray
    high: np.ndarray
    points: np.ndarray

    def __len__(self) -> int:
        return len(self.start) - 1

    def members(self, items: np.ndarray) -> np.ndarray:
        """The points of POINTS items, one item after the other."""
        return np.asarray(self.points[spans(self.low[items], self.high[items])])

    def values(self, events: pa.Table) -> np.ndarray:
        """The values of events, a row for each attribute."""
        out = np.full((len(self.names), events.num_rows), MISSING)
        for line, name in zip(out, self.names, strict=True):
            column, _, member = name.partition(":")
            if column not in events.column_names:
                continue
            cells = events.column(column).combine_chunks()
            if member:
                line[:] = _has(cells, member)
            elif name in self.constants:
                found = pc.fill_null(pc.index_in(cells, self.constants[name]).cast(pa.float64()), UNKNOWN)
                line[:] = np.where(cells.is_valid(), found, MISSING)
            else:
                line[:] = pc.fill_null(cells.cast(pa.float64()), MISSING)
        return out


def read_filters(texts: pa.ChunkedArray) -> FlatFilters:
    """The filters of a column of texts."""
    firsts = range(0, len(texts), _ROWS)
    parts = [_Part(texts.slice(first, _ROWS).combine_chunks(), first) for first in firsts]
    names = sorted({name for part in parts for name in part.names})
    strings: dict[str, list[pa.Array]] = {}
    for part in parts:
        for name, column in part.strings():
            strings.setdefault(name, []).append(column)
    constants = {name: pc.unique(pa.concat_arrays(columns)).sort() for name, columns in strings.items()}
    items = [part.items(names, constants) for part in parts]
    owner, attribute, kind, low, high = (np.concatenate(column) for column in list(zip(*items, strict=True))[:5])
    sizes = np.cumsum([0] + [len(points) for *_, points in items])
    shift = np.repeat(sizes[:-1], [len(part[0]) for part in items])
    low[kind == POINTS] += shift[kind == POINTS]
    high[kind == POINTS] += shift[kind == POINTS]
    order = np.lexsort((attribute, owner))
    start = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=len(texts)))))
    points = np.concatenate([points for *_, points in items])
    owner, attribute, kind, low, high = (column[order] for column in (owner, attribute, kind, low, high))
    return FlatFilters(names, constants, start, owner, attribute, kind, low, high, points)


def _has(cells: pa.Array, member: str) -> np.ndarray:
    """Per row whether a list holds a member; MISSING without a list."""
    rows = pc.list_parent_indices(cells).to_numpy()
    hit = pc.equal(pc.list_flatten(cells), member).to_numpy(zero_copy_only=False)
    found = np.bincount(rows[hit], minlength=len(cells)) > 0
    return np.where(cells.is_valid(), found, MISSING)


class _Part:
    """The predicates of some texts, each as name, operator and operand."""

    def __init__(self, texts: pa.Array, first: int) -> None:
        whole = pc.replace_substring_regex(texts, r"BETWEEN (\S+) AND ", r"BETWEEN \1 ~ ")
        lists = pc.split_pattern(whole, " AND ")
        rows = pc.list_parent_indices(lists).to_numpy() + first
        predicates = pc.list_flatten(lists)
        tested = pc.not_equal(predicates, "TRUE").to_numpy(zero_copy_only=False)
        predicates = predicates.filter(pa.array(tested))
        fields = pc.extract_regex(predicates, PREDICATE)
        if fields.null_count:
            odd = predicates.filter(fields.is_null())[0]
            raise ValueError(f"Expected a predicate of a frozen workload, but got {odd}")
        self._owner = rows[tested]
        self._name, self._operator, self._operand = (fields.field(i) for i in range(3))
        self._spread_members()
        self.names = set(pc.unique(self._name).to_pylist())

    def _spread_members(self) -> None:
        """Turns `tags CONTAINS ALL ('x', 'y')` into `tags:x = 1` and `tags:y = 1`."""
        asked = pc.equal(self._operator, "CONTAINS ALL").to_numpy(zero_copy_only=False)
        if not asked.any():
            return
        members, parents = _members(self._operand.filter(pa.array(asked)))
        names = pc.binary_join_element_wise(self._name.filter(pa.array(asked)).take(pa.array(parents)), members, ":")
        rest = pa.array(~asked)
        count = len(members)
        self._owner = np.concatenate([self._owner[~asked], self._owner[asked][parents]])
        self._name = pa.concat_arrays([self._name.filter(rest), names])
        self._operator = pa.concat_arrays([self._operator.filter(rest), pa.array(["="] * count)])
        self._operand = pa.concat_arrays([self._operand.filter(rest), pa.array(["1"] * count)])

    def _where(self, operator: str) -> np.ndarray:
        return np.asarray(pc.equal(self._operator, operator))

    def strings(self) -> Iterator[tuple[str, pa.Array]]:
        """The strings that each attribute is compared with."""
        quoted = pc.starts_with(self._operand, "'").to_numpy(zero_copy_only=False)
        for mask, many in ((quoted, False), (self._where("IN"), True)):
            names, operands = (column.filter(pa.array(mask)) for column in (self._name, self._operand))
            if many:
                operands, parents = _members(operands)
                names = names.take(pa.array(parents))
            else:
                operands = pc.utf8_trim(operands, "'")
            for name in pc.unique(names).to_pylist():
                yield name, pc.unique(operands.filter(pc.equal(names, name)))

    def items(self, names: list[str], constants: dict[str, pa.Array]) -> tuple[np.ndarray, ...]:
        """Owner, attribute, kind, low, high of each predicate, and the points of all POINTS."""
        attribute = pc.index_in(self._name, pa.array(names)).to_numpy()
        kind = np.zeros(len(attribute), np.uint8)
        low, high = np.full(len(attribute), LOWEST), np.full(len(attribute), HIGHEST)
        points = np.empty(0)
        for operator in _OPERATORS:
            mask = self._where(operator)
            if not mask.any():
                continue
            operands, its = self._operand.filter(pa.array(mask)), attribute[mask]
            if operator == "BETWEEN":
                ends = pc.split_pattern(operands, " ~ ")
                low[mask], high[mask] = (pc.list_element(ends, i).cast(pa.float64()) for i in (0, 1))
            elif operator == "IN":
                members, parents = _members(operands)
                points = _numbers(members, its[parents], names, constants)
                sizes = np.bincount(parents, minlength=len(operands))
                kind[mask], low[mask], high[mask] = POINTS, np.cumsum(sizes) - sizes, np.cumsum(sizes)
            else:
                found = _numbers(pc.utf8_trim(operands, "'"), its, names, constants)
                if operator == "!=":
                    low[mask], high[mask] = UNKNOWN, _below_the_last(found, its, names, constants)
                if operator in ("=", ">", ">="):
                    low[mask] = np.nextafter(found, np.inf) if operator == ">" else found
                if operator in ("=", "<", "<="):
                    high[mask] = np.nextafter(found, -np.inf) if operator == "<" else found
        return self._owner, attribute, kind, low, high, points


def _members(operands: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The members of lists such as ('x', 'y'), and the list of each."""
    lists = pc.split_pattern(pc.utf8_trim(operands, "()"), ", ")
    return pc.utf8_trim(pc.list_flatten(lists), "'"), pc.list_parent_indices(lists).to_numpy()


def _numbers(texts: pa.Array, attribute: np.ndarray, names: list[str], constants: dict[str, pa.Array]) -> np.ndarray:
    """The values of literals."""
    out = np.empty(len(texts))
    for number in np.unique(attribute).tolist():
        mask = attribute == number
        some = texts.filter(pa.array(mask))
        known = constants.get(names[number])
        out[mask] = some.cast(pa.float64()) if known is None else pc.index_in(some, known).cast(pa.float64())
    return out


def spans(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """All places of the spans low:high, one span after the other."""
    sizes = (high - low).astype(np.int64)
    shifts = low.astype(np.int64) - np.cumsum(sizes) + sizes
    return np.asarray(np.arange(int(sizes.sum())) + np.repeat(shifts, sizes))


def _below_the_last(
    found: np.ndarray, attribute: np.ndarray, names: list[str], constants: dict[str, pa.Array]
) -> np.ndarray:
    """The upper bound of `!=` as a range. The excluded constant must be the last one of its attribute."""
    last = np.array([len(constants.get(name, ())) - 1 for name in names])[attribute]
    if np.any(found != last):
        raise ValueError("Expected != only with the last string of its attribute")
    return found - 1
