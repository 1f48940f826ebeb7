"""Sets of codes as SQL text: the shortest predicate in the user's words whose true-set they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from whimbrel.language.sql.literals import string_text
from whimbrel.language.sql.value_sets import Text, all_of, any_of
from whimbrel.model.constraint import NULL_KEY, Constraint, Group
from whimbrel.model.intervals import ALL, IntervalSet
from whimbrel.model.limits import IN_MEMBERS
from whimbrel.model.values import NUMBER

if TYPE_CHECKING:
    from whimbrel.model.event_schema import CodedDomain

FEW = 3
"""Values up to which a list is easier to read than the opposite of a comparison."""


def coded_tests(name: str, constraint: Constraint, order: CodedDomain) -> list[Text]:
    """The tests of the value that a binding picks."""
    if constraint.values == ALL:
        return [Text(f"{name} = {name}")] if constraint.bound else []
    return [_set_text(name, constraint.values, order)]


def in_words(constraint: Constraint, order: CodedDomain) -> Constraint:
    """The constraint with words in the place of the codes of its members."""

    def words(group: Group) -> Group:
        return frozenset(order.word(key) if key != NULL_KEY and key[0] == NUMBER else key for key in group)

    return replace(
        constraint, required=frozenset(map(words, constraint.required)), forbidden=words(constraint.forbidden)
    )


def _set_text(name: str, values: IntervalSet, order: CodedDomain) -> Text:
    """The test that holds for exactly these codes: one value, all but one, a comparison, its opposite, or a list."""
    runs, holes = order.code_runs(values), order.code_runs(values.complement())
    size, left_out = _size(runs), _size(holes)
    for op, codes, count in (("=", runs, size), ("!=", holes, left_out)):
        if count == 1:
            return Text(f"{name} {op} {string_text(order.words[codes[0][0]])}")
    comparison = order.described(runs)
    if comparison is not None:
        return Text(f"{name} {comparison[0]} {string_text(order.words[comparison[1]])}")
    opposite = order.described(holes) if min(size, left_out) > FEW else None
    if opposite is not None:
        return Text(f"NOT {name} {opposite[0]} {string_text(order.words[opposite[1]])}")
    if size <= left_out:
        return any_of([Text(f"{name} IN ({literals})") for literals in _lists(runs, order)])
    return all_of([Text(f"{name} NOT IN ({literals})") for literals in _lists(holes, order)])


def _size(runs: Sequence[tuple[int, int]]) -> int:
    return sum(last - first + 1 for first, last in runs)


def _lists(runs: Sequence[tuple[int, int]], order: CodedDomain) -> list[str]:
    """The words of codes, in lists of an allowed length."""
    words = [string_text(order.words[code]) for first, last in runs for code in range(first, last + 1)]
    size = IN_MEMBERS.value
    return [", ".join(words[start : start + size]) for start in range(0, len(words), size)]
