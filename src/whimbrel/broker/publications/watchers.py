"""Streams on publications that live with their connection: who enters and leaves follows from the old and new state.

They are not in the log and remember nothing, so that they have neither a wider filter nor a dwell. Only the sequencer
uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from whimbrel.broker.sequencing.publishing import LiveIndex
from whimbrel.engine.index import Index
from whimbrel.log.matched_numbers import MatchedNumbers
from whimbrel.model.filter import Filter
from whimbrel.model.token_rules import Rules

FIRST_NUMBER = -(1 << 40)
"""Watchers have numbers below this one, ephemeral subscriptions on events have numbers above it."""


class WatchedUpdate(NamedTuple):
    """An entry of the log, and the state of a publication before and after it; None where there is none."""

    offset: int
    old: bytes | None
    new: bytes | None


class WatcherTransition(NamedTuple):
    """A watcher is told of the entry at `offset`."""

    offset: int
    number: int
    kind: str


class Watchers:
    """The watchers of one tenant's publications."""

    def __init__(self, timestamps: Iterable[str]) -> None:
        self._live = LiveIndex(Index(frozenset(timestamps)), {})
        self._leave: set[int] = set()
        self.constrained: set[int] = set()
        """Watchers with rules, which may not see every state."""

    def __len__(self) -> int:
        return len(self._live.index)

    def add(self, number: int, filter: Filter, rules: Rules, leave: bool) -> None:
        """Add a watcher; with `leave` it is told of leaves too."""
        self._live.add(number, filter, "sql", rules)
        if leave:
            self._leave.add(number)
        if rules:
            self.constrained.add(number)

    def remove(self, number: int) -> None:
        """Remove a watcher, if it is there."""
        self._live.remove(number)
        self._leave.discard(number)
        self.constrained.discard(number)

    def transitions(self, updates: Sequence[WatchedUpdate]) -> list[WatcherTransition]:
        """Who is told of some updates, and what. Costs nothing without watchers."""
        if not len(self) or not updates:
            return []
        before = _by_row(self._live.match([update.old or b"{}" for update in updates]))
        after = _by_row(self._live.match([update.new or b"{}" for update in updates]))
        found: list[WatcherTransition] = []
        for update, old, new in zip(updates, before, after, strict=True):
            was_inside = old if update.old is not None else set()
            is_inside = new if update.new is not None else set()
            found += [WatcherTransition(update.offset, number, "enter") for number in sorted(is_inside - was_inside)]
            gone = sorted(was_inside - is_inside)
            if update.new is None:
                found += [WatcherTransition(update.offset, number, "delete") for number in gone]
            else:
                told = [number for number in gone if number in self._leave]
                found += [WatcherTransition(update.offset, number, "leave") for number in told]
        return found


def _by_row(matched: MatchedNumbers) -> list[set[int]]:
    ends, numbers = matched.offsets.tolist(), matched.numbers.tolist()
    return [set(numbers[start:end]) for start, end in pairwise(ends)]
