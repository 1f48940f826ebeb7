"""Sets of codes as SQL text: the shortest predicate in the user's words whose true-set they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from whimbrel.language.sql_literals import string_text
from whimbrel.language.sql_sets import Text, all_of, any_of
from whimbrel.model.constraint import NULL_KEY, Constraint, Group
from whimbrel.model.intervals import ALL, IntervalSet
from whimbrel.model.limits import IN_MEMBERS
from whimbrel.model.values import NUMBER

if TYPE_CHECKING:
    from whimbrel.model.schema import Ordered


def coded_tests(name: str, constraint: Constraint, order: Ordered) -> list[Text]:
    """The tests of the value that a binding picks."""
    if constraint.values == ALL:
        return [Text(f"{name} = {name}")] if constraint.bound else []
    return [_set_text(name, constraint.values, order)]


def in_words(constraint: Constraint, order: Ordered) -> Constraint:
    """The constraint with words in the place of the codes of its members."""

    def words(group: Group) -> Group:
        return frozenset(order.word(key) if key != NULL_KEY and key[0] == NUMBER else key for key in group)

    return replace(
        constraint, required=frozenset(map(words, constraint.required)), forbidden=words(constraint.forbidden)
    )


def _set_text(name: str, values: IntervalSet, order: Ordered) -> Text:
    runs = order.code_runs(values)
    size, count = sum(last - first + 1 for first, last in runs), len(order.words)
    if size == 1:
        return Text(f"{name} = {string_text(order.words[runs[0][0]])}")
    held = [code for first, last in runs for code in range(first, last + 1)] if size <= count - size else []
    others = set(range(count)).difference(*(range(first, last + 1) for first, last in runs)) if not held else set()
    if len(others) == 1:
        return Text(f"{name} != {string_text(order.words[others.pop()])}")
    comparison = order.described(runs)
    if comparison is not None:
        op, code = comparison
        return Text(f"{name} {op} {string_text(order.words[code])}")
    if held:
        return any_of([Text(f"{name} IN ({literals})") for literals in _lists(held, order)])
    return all_of([Text(f"{name} NOT IN ({literals})") for literals in _lists(sorted(others), order)])


def _lists(codes: Iterable[int], order: Ordered) -> list[str]:
    """The words of codes, in lists of an allowed length."""
    words = [string_text(order.words[code]) for code in codes]
    size = IN_MEMBERS.value
    return [", ".join(words[start : start + size]) for start in range(0, len(words), size)]
