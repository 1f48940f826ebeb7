"""The papers' matchers: every member of Whimbrel's own family, by the same role.

Bias. They are ours, written to be as fast as their algorithm allows in Numba, and no author has tuned them. Members
that load in bulk answer tables by their own fast lane, block by block; the others take events one by one, and reading
a row of a table as an event is part of their time. They are given as many subscriptions as they load in reasonable
time, in a field of that size, with the engine beside them. `naive` is the reference evaluator: it is here to check the
answers of everybody else, not to race.
"""

import time
from collections.abc import Iterator

import pyarrow as pa

from whimbrel.lab.measure.matching.cases import MatchCase
from whimbrel.lab.measure.matching.rival import CannotTakePart, Pairs, Rival, pairs_of_blocks
from whimbrel.matchers import MATCHERS, make
from whimbrel.matchers.frozen import FrozenMatcher

ONE_BY_ONE = 10_000
"""Subscriptions for members that are filled one by one."""
FEWER = {"naive": 1_000, "gough": 100}
"""Subscriptions for the reference evaluator, and for a structure that grows exponentially."""
LOAD_SECONDS = 120.0
"""For filling one by one."""
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "equality_tree (no options)": ("equality_tree", {"collapse": False, "successors": False, "aggressive": False}),
    "sgim (dynamic)": ("sgim", {"grouping": "dynamic"}),
}
"""Members with other options than their usual ones."""


def rivals(case: MatchCase) -> list[Rival]:
    """Every member and variant at the size that suits it."""
    if not case.papers:
        return []
    members = {name: (name, dict[str, object]()) for name in MATCHERS} | VARIANTS
    return [Member(title, name, options, case) for title, (name, options) in members.items()]


class Member(Rival):
    """A member of the family of matchers."""

    group = "papers"

    def __init__(self, title: str, member: str, options: dict[str, object], case: MatchCase) -> None:
        self.name = title
        self._matcher = make(member, **options)
        in_bulk = isinstance(self._matcher, FrozenMatcher)
        self.most = min(case.papers, FEWER.get(member, case.papers if in_bulk else ONE_BY_ONE))

    def load(self, subscriptions: pa.Table, seconds: float) -> None:
        matcher = self._matcher
        ids, texts = subscriptions["id"].to_pylist(), subscriptions["filter"].to_pylist()
        if isinstance(matcher, FrozenMatcher):
            matcher.add(ids[0], texts[0])  # refuses at once what it cannot hold
            matcher.add_many(zip(ids[1:], texts[1:], strict=True))
            matcher.freeze()
            return
        deadline = time.perf_counter() + LOAD_SECONDS
        for done, (id, text) in enumerate(zip(ids, texts, strict=True)):
            matcher.add(id, text)
            if done % 256 == 0 and time.perf_counter() > deadline:
                raise CannotTakePart(f"{done:,} of {len(ids):,} subscriptions took {LOAD_SECONDS:.0f} s")
        if hasattr(matcher, "freeze"):
            matcher.freeze()

    def pairs(self, events: pa.Table) -> Iterator[Pairs]:
        matcher = self._matcher
        if isinstance(matcher, FrozenMatcher):
            return pairs_of_blocks(matcher.match_blocks(events), matcher.ids)
        table = matcher.match_batch(events)
        return iter([(table["event"].to_numpy(), table["subscription"].to_numpy())])

    def run(self, events: pa.Table) -> int:
        matcher = self._matcher
        if isinstance(matcher, FrozenMatcher):
            return sum(len(places) for _, places in matcher.match_blocks(events))
        return len(matcher.match_batch(events))

    def bytes(self) -> int | None:
        size = self._matcher.stats().get("bytes")
        return None if size is None else int(size)

    def close(self) -> None:
        del self._matcher
