"""Writes a set of values as SQL text: the shortest familiar predicate that holds for exactly these values.

`NOT` complements only membership (=, IN, STARTS WITH), because an order comparison is unknown outside its type.
So a set is written as points, as everything but points and prefixes, or type by type as ranges joined by OR. A set of
codes, which stand for the values of an ordered domain, is written in the words of the domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from whimbrel.language.sql.literals import string_text, value_text
from whimbrel.model.constraint import NULL_KEY, Constraint, Group
from whimbrel.model.intervals import ALL, Cut, IntervalSet, edge
from whimbrel.model.limits import IN_MEMBERS
from whimbrel.model.values import NUMBER, STRING, TIMESTAMP, SortKey, Timestamp, from_key

if TYPE_CHECKING:
    from whimbrel.model.event_schema import CodedDomain

_FEW = 3
"""A list of up to so many values is easier to read than the negation of a comparison."""
_OR, _AND, _ATOM = 1, 2, 3
_EPOCH = value_text(Timestamp(0))


class SqlText(NamedTuple):
    """A part of a SQL text, and the precedence of its outermost operator, which decides about parentheses."""

    text: str
    power: int = _ATOM


def all_of(parts: Sequence[SqlText]) -> SqlText:
    """The parts joined by AND."""
    return _joined(parts, " AND ", _AND)


def any_of(parts: Sequence[SqlText]) -> SqlText:
    """The parts joined by OR."""
    return _joined(parts, " OR ", _OR)


def _joined(parts: Sequence[SqlText], join: str, power: int) -> SqlText:
    if len(parts) == 1:
        return parts[0]
    return SqlText(join.join(part.text if part.power >= power else f"({part.text})" for part in parts), power)


def chunks(keys: Iterable[SortKey]) -> Iterator[list[str]]:
    """The sorted literals of some keys, in lists that are short enough for IN."""
    written = [value_text(None if key == NULL_KEY else from_key(key)) for key in sorted(keys)]
    for start in range(0, len(written), IN_MEMBERS.value):
        yield written[start : start + IN_MEMBERS.value]


def set_text(name: str, values: IntervalSet) -> SqlText:
    """The predicate on the attribute that holds for exactly these values; the set is not empty."""
    points = values.as_points()
    if points is not None:
        return _among(name, points)
    if values == ALL:
        return SqlText(f"{name} = {name}")
    holes = values.complement()
    if holes.complement() == values:  # false if the set has cuts with nothing between them
        excluded = _all_but(name, holes)
        if excluded:
            return all_of(excluded)
    return any_of([text for rank in range(TIMESTAMP + 1) for text in _of_type(name, rank, values)])


def _among(name: str, keys: list[SortKey]) -> SqlText:
    return any_of([SqlText(f"{name} = {c[0]}" if len(c) == 1 else f"{name} IN ({', '.join(c)})") for c in chunks(keys)])


def _not_among(name: str, keys: list[SortKey]) -> list[SqlText]:
    return [SqlText(f"{name} != {c[0]}" if len(c) == 1 else f"{name} NOT IN ({', '.join(c)})") for c in chunks(keys)]


def _all_but(name: str, holes: IntervalSet) -> list[SqlText]:
    """The tests that exclude the holes; empty if a hole is neither points nor a prefix."""
    keys: list[SortKey] = []
    prefixes: list[SqlText] = []
    for low, high in holes.pairs():
        points = IntervalSet((low, high)).as_points()
        if points is not None:
            keys += points
            continue
        prefix = _prefix(low, high)
        if prefix is None:
            return []
        prefixes.append(SqlText(f"{name} NOT STARTS WITH {string_text(prefix)}"))
    return _not_among(name, keys) + prefixes


def _of_type(name: str, rank: int, values: IntervalSet) -> list[SqlText]:
    """The tests for the values of one type: points first, then ranges, from which single points are excluded."""
    inside = values.intersect(IntervalSet((edge(rank), edge(rank + 1))))
    keys: list[SortKey] = []
    runs: list[tuple[Cut, Cut, list[SortKey]]] = []
    for low, high in inside.pairs():
        points = IntervalSet((low, high)).as_points()
        if points is not None:
            keys += points
            continue
        hole = IntervalSet((runs[-1][1], low)).as_points() if runs else None
        if hole is not None:
            start, _, excluded = runs.pop()
            runs.append((start, high, excluded + hole))
        else:
            runs.append((low, high, []))
    ranges = [all_of([range_text(name, low, high), *_not_among(name, excluded)]) for low, high, excluded in runs]
    return ([_among(name, keys)] if keys else []) + ranges


def range_text(name: str, low: Cut, high: Cut) -> SqlText:
    """The values between two cuts of one type."""
    rank = low[0]
    if (low, high) == (edge(rank), edge(rank + 1)):
        return _whole_type(name, rank)
    prefix = _prefix(low, high)
    if prefix is not None:
        return SqlText(f"{name} STARTS WITH {string_text(prefix)}")
    lower = None if low == edge(rank) else _bound(low)
    upper = None if high == edge(rank + 1) else _bound(high)
    if lower is None:
        return SqlText(f"{name} {'<=' if high[3] else '<'} {upper}")
    if upper is None:
        return SqlText(f"{name} {'>' if low[3] else '>='} {lower}")
    if high[3] and not low[3]:
        return SqlText(f"{name} BETWEEN {lower} AND {upper}")
    return SqlText(f"{name} {'>' if low[3] else '>='} {lower} AND {name} {'<=' if high[3] else '<'} {upper}", _AND)


def _bound(cut: Cut) -> str:
    assert cut[2] is not None
    return value_text(from_key((cut[0], cut[2])))


def _whole_type(name: str, rank: int) -> SqlText:
    if rank == NUMBER:
        return SqlText(f"{name} <= 1e999")
    if rank == STRING:
        return SqlText(f"{name} LIKE '%'")
    return SqlText(f"{name} < {_EPOCH} OR {name} >= {_EPOCH}", _OR)  # time has no last moment


def _prefix(low: Cut, high: Cut) -> str | None:
    """The prefix whose strings are exactly those between the cuts, if there is one."""
    if (low, high) == (edge(STRING), edge(TIMESTAMP)):
        return ""
    if low[0] != STRING or not isinstance(low[2], str):
        return None
    text = low[2] + "\0" if low[3] else low[2]
    return text if IntervalSet.prefix(text).cuts == (low, high) else None


def coded_tests(name: str, constraint: Constraint, order: CodedDomain) -> list[SqlText]:
    """The tests of the value that a binding picks, in the words of an ordered domain."""
    if constraint.values == ALL:
        return [SqlText(f"{name} = {name}")] if constraint.bound else []
    return [_coded_set(name, constraint.values, order)]


def in_words(constraint: Constraint, order: CodedDomain) -> Constraint:
    """The constraint with the codes of its members replaced by words."""

    def words(group: Group) -> Group:
        return frozenset(order.word(key) if key != NULL_KEY and key[0] == NUMBER else key for key in group)

    return replace(
        constraint, required=frozenset(map(words, constraint.required)), forbidden=words(constraint.forbidden)
    )


def _coded_set(name: str, values: IntervalSet, order: CodedDomain) -> SqlText:
    """The test that holds for exactly these codes: one value, all but one, a comparison, its opposite, or a list."""
    runs, holes = order.code_runs(values), order.code_runs(values.complement())
    size, left_out = _count(runs), _count(holes)
    for op, codes, count in (("=", runs, size), ("!=", holes, left_out)):
        if count == 1:
            return SqlText(f"{name} {op} {string_text(order.words[codes[0][0]])}")
    comparison = order.described(runs)
    if comparison is not None:
        return SqlText(f"{name} {comparison[0]} {string_text(order.words[comparison[1]])}")
    opposite = order.described(holes) if min(size, left_out) > _FEW else None
    if opposite is not None:
        return SqlText(f"NOT {name} {opposite[0]} {string_text(order.words[opposite[1]])}")
    if size <= left_out:
        return any_of([SqlText(f"{name} IN ({literals})") for literals in _word_lists(runs, order)])
    return all_of([SqlText(f"{name} NOT IN ({literals})") for literals in _word_lists(holes, order)])


def _count(runs: Sequence[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in runs)


def _word_lists(runs: Sequence[tuple[int, int]], order: CodedDomain) -> list[str]:
    """The words of codes, in lists that are short enough for IN."""
    words = [string_text(order.words[code]) for first, last in runs for code in range(first, last + 1)]
    size = IN_MEMBERS.value
    return [", ".join(words[start : start + size]) for start in range(0, len(words), size)]
