"""Subscriptions whose pairs are kept: hysteresis and dwell.

A publication enters a subscription when it matches its filter. It is out when it does not match the filter of `outer`,
another subscription of the same index that is wider and told of nothing. With dwell it leaves only after it has been
out for so many seconds without a break.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from whimbrel.publications.notifications import DELETE, ENTER, LEAVE, News


@dataclass(frozen=True, slots=True)
class Rules:
    """What subscriptions ask for, by id. `leave` is for all, or for some."""

    leave: bool | frozenset[Any] = False
    outer: Mapping[Any, Any] | None = None
    dwell: Mapping[Any, float] | None = None

    @property
    def kept(self) -> list[Any]:
        """The ids whose pairs are kept."""
        return list(dict.fromkeys([*(self.outer or {}), *(self.dwell or {})]))

    @property
    def named(self) -> list[Any]:
        """The ids whose matches pairs follow from: they are not told of by their matches alone."""
        return list(dict.fromkeys([*self.kept, *(self.outer or {}).values()]))

    def tells_leaves(self, id: Any) -> bool:
        """Whether a subscription is told of leaves."""
        return self.leave if isinstance(self.leave, bool) else id in self.leave


class Sticky:
    """The pairs of one bucket, and what they wait for."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        outer = rules.outer or {}
        self._outer = {id: outer.get(id, id) for id in rules.kept}
        self._dwell = {id: float(span) for id, span in (rules.dwell or {}).items()}
        self.pairs: dict[tuple[Any, Any], float | None] = {}
        """Who is inside what; when it leaves, if it is out already."""
        self.now = -float("inf")

    def __bool__(self) -> bool:
        return bool(self._outer)

    def seen(self, key: Any, matched: set[Any], now: float, sequence: int | None, news: News) -> None:
        """A publication has a new state, which matches these."""
        self.now = max(self.now, now)
        for id, outer in self._outer.items():
            pair = key, id
            self._leave_if_due(pair, now, news)
            if id in matched:
                if pair not in self.pairs:
                    news.add(key, id, ENTER, sequence)
                self.pairs[pair] = None
            elif pair in self.pairs:
                if outer in matched:
                    self.pairs[pair] = None
                elif self.pairs[pair] is None and id in self._dwell:
                    self.pairs[pair] = now + self._dwell[id]
                elif self.pairs[pair] is None:
                    self._leaves(pair, sequence, news)

    def gone(self, key: Any, sequence: int | None, news: News) -> None:
        """A publication was deleted."""
        for id in self._outer:
            if (key, id) in self.pairs:
                del self.pairs[key, id]
                news.add(key, id, DELETE, sequence)

    def advance(self, now: float, news: News) -> None:
        """Let those leave whose time has come."""
        self.now = max(self.now, now)
        for pair in [pair for pair, due in self.pairs.items() if due is not None and due <= now]:
            self._leaves(pair, None, news)

    @property
    def next_due(self) -> float | None:
        """When somebody leaves next."""
        return min((due for due in self.pairs.values() if due is not None), default=None)

    def _leave_if_due(self, pair: tuple[Any, Any], now: float, news: News) -> None:
        due = self.pairs.get(pair)
        if due is not None and due <= now:
            self._leaves(pair, None, news)

    def _leaves(self, pair: tuple[Any, Any], sequence: int | None, news: News) -> None:
        del self.pairs[pair]
        if self._rules.tells_leaves(pair[1]):
            news.add(*pair, LEAVE, sequence)
