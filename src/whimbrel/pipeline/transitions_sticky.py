"""Subscriptions whose pairs are kept: hysteresis and dwell.

A publication enters a subscription when it matches its filter. It is out when it does not match the filter of `outer`,
another subscription of the same index that is wider and told of nothing. With dwell it leaves only after it has been
out for so many seconds without a break.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from whimbrel.pipeline.transitions_news import DELETE, ENTER, LEAVE, News


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


class Sticky:
    """The pairs of one bucket, and what they wait for."""

    def __init__(self, rules: Rules, code_of: Callable[[Any], int]) -> None:
        self._rules = rules
        self._leave = rules.leave
        self._told = (
            np.zeros(0, np.int64)
            if isinstance(rules.leave, bool)
            else np.array(sorted(map(code_of, rules.leave)), np.int64)
        )
        outer = rules.outer or {}
        self._outer = {code_of(id): code_of(outer.get(id, id)) for id in rules.kept}
        self._dwell = {code_of(id): float(span) for id, span in (rules.dwell or {}).items()}
        hidden = set(map(code_of, outer.values()))
        self.codes = np.array(sorted(self._outer.keys() | hidden), np.int64)
        """Those that are not told of by their matches alone."""
        self.pairs: dict[tuple[Any, int], float | None] = {}
        """Who is inside; when it leaves, if it is out already."""
        self.now = -float("inf")

    def __bool__(self) -> bool:
        return bool(self._outer)

    def tells_leaves(self, codes: np.ndarray) -> np.ndarray:
        """Which subscriptions are told of leaves."""
        if isinstance(self._leave, bool):
            return np.full(len(codes), self._leave)
        return np.isin(codes, self._told)

    def seen(self, key: Any, matched: set[int], now: float, sequence: int | None, news: News) -> None:
        """A publication has a new state, which matches these."""
        self.now = max(self.now, now)
        for code, outer in self._outer.items():
            pair = key, code
            self._leave_if_due(pair, now, news)
            if code in matched:
                if pair not in self.pairs:
                    news.add(key, code, ENTER, sequence)
                self.pairs[pair] = None
            elif pair in self.pairs:
                if outer in matched:
                    self.pairs[pair] = None
                elif self.pairs[pair] is None and code in self._dwell:
                    self.pairs[pair] = now + self._dwell[code]
                elif self.pairs[pair] is None:
                    self._leaves(pair, sequence, news)

    def gone(self, key: Any, sequence: int | None, news: News) -> None:
        """A publication was deleted."""
        for code in self._outer:
            if (key, code) in self.pairs:
                del self.pairs[key, code]
                news.add(key, code, DELETE, sequence)

    def advance(self, now: float, news: News) -> None:
        """Let those leave whose time has come."""
        self.now = max(self.now, now)
        for pair in [pair for pair, due in self.pairs.items() if due is not None and due <= now]:
            self._leaves(pair, None, news)

    @property
    def next_due(self) -> float | None:
        """When somebody leaves next."""
        return min((due for due in self.pairs.values() if due is not None), default=None)

    def _leave_if_due(self, pair: tuple[Any, int], now: float, news: News) -> None:
        due = self.pairs.get(pair)
        if due is not None and due <= now:
            self._leaves(pair, None, news)

    def _leaves(self, pair: tuple[Any, int], sequence: int | None, news: News) -> None:
        del self.pairs[pair]
        if self.tells_leaves(np.array([pair[1]]))[0]:
            news.add(*pair, LEAVE, sequence)
