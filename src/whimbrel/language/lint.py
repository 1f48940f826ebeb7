"""The rules of lint: what is suspicious about a filter, alone and beside other filters.

To add a rule about single filters, write a function from a filter to remarks and add it to `FILTER_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from whimbrel.model import dialects
from whimbrel.model.covering import CoverIndex
from whimbrel.model.filter import Filter

Rule: TypeAlias = Literal["error", "unsatisfiable", "always-true", "duplicate", "covered"] | dialects.HintRule
"""`error` is for filters that do not parse, about which no rule is asked."""


@dataclass(frozen=True, slots=True)
class Remark:
    """What a rule says about a filter; if there is an `other` filter (its place), its name completes the message."""

    rule: Rule
    message: str
    other: int | None = None


def _unsatisfiable(filter: Filter) -> Iterator[Remark]:
    if not filter.is_satisfiable():
        yield Remark("unsatisfiable", "no event can match")


def _always_true(filter: Filter) -> Iterator[Remark]:
    if filter.is_always_true():
        yield Remark("always-true", "every event matches")


def _suspicious(filter: Filter) -> Iterator[Remark]:
    return (Remark(hint.rule, hint.message) for hint in dialects.hints(filter))


FILTER_RULES: tuple[Callable[[Filter], Iterable[Remark]], ...] = (_unsatisfiable, _always_true, _suspicious)
"""The rules about single filters."""


def lint_filter(filter: Filter) -> list[Remark]:
    """What the rules say about one filter.

    >>> [remark.rule for remark in lint_filter(Filter.parse('a = "x" AND b > 5 AND b < 3'))]
    ['unsatisfiable', 'suspicious-name']
    """
    return [remark for rule in FILTER_RULES for remark in rule(filter)]


def lint_together(
    filters: Sequence[Filter], progress: Callable[[int], None] = lambda count: None
) -> Iterator[tuple[int, Remark]]:
    """Find equal filters, then filters that another one covers: the place of each and the remark on it.

    Unsatisfiable filters are left out, and so are those that every event matches: they cover every filter.
    `progress` is told how many filters were compared, every thousand.
    """
    first: dict[Filter, int] = {}
    for place, filter in enumerate(filters):
        if filter.is_satisfiable():
            same = first.setdefault(filter, place)
            if same != place:
                yield place, Remark("duplicate", "the same filter as", same)
    places = [place for filter, place in first.items() if not filter.is_always_true()]
    covers = CoverIndex(filters.__getitem__)
    for place in places:
        covers.add(place)
    for count, place in enumerate(places, 1):
        wider = covers.find(place)
        if wider is not None:
            yield place, Remark("covered", "every event that matches also matches", wider)
        if count % 1_000 == 0:
            progress(count)
