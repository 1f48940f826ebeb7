"""A matcher of the papers as a rival: loaded in bulk where it can, matched by its fastest way for tables."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import pyarrow as pa

from whimbrel.lab.measure.matching.rival import CannotTakePart, Pairs, Rival, pairs_of_blocks
from whimbrel.matchers import BaseMatcher, make
from whimbrel.matchers.shared.frozen import FrozenMatcher

LOAD_SECONDS = 120.0
"""CPU time for filling one by one."""


class PaperMatcher(Rival):
    """A matcher with its options, under a title. Those that cannot load in bulk are filled one by one."""

    group = "papers"

    def __init__(self, title: str, name: str, options: Mapping[str, object]) -> None:
        self.name = title
        self.matcher: BaseMatcher = make(name, **options)

    @property
    def in_bulk(self) -> bool:
        """Whether it loads many subscriptions at once."""
        return isinstance(self.matcher, FrozenMatcher)

    def load(self, subscriptions: pa.Table) -> None:
        matcher = self.matcher
        ids, texts = subscriptions["id"].to_pylist(), subscriptions["filter"].to_pylist()
        if isinstance(matcher, FrozenMatcher):
            matcher.add(ids[0], texts[0])  # refuses at once what it cannot hold
            matcher.add_many(zip(ids[1:], texts[1:], strict=True))
            matcher.freeze()
            return
        deadline = time.process_time() + LOAD_SECONDS
        for done, (id, text) in enumerate(zip(ids, texts, strict=True)):
            matcher.add(id, text)
            if done % 256 == 0 and time.process_time() > deadline:
                raise CannotTakePart(f"{done:,} of {len(ids):,} subscriptions took {LOAD_SECONDS:.0f} s")
        if hasattr(matcher, "freeze"):
            matcher.freeze()

    def pairs(self, events: pa.Table) -> Iterator[Pairs]:
        if isinstance(self.matcher, FrozenMatcher):
            return pairs_of_blocks(self.matcher.match_blocks(events), self.matcher.ids)
        table = self.matcher.match_batch(events)
        return iter([(table["event"].to_numpy(), table["subscription"].to_numpy())])

    def run(self, events: pa.Table) -> int:
        if isinstance(self.matcher, FrozenMatcher):
            return sum(len(places) for _, places in self.matcher.match_blocks(events))
        return len(self.matcher.match_batch(events))

    def bytes(self) -> int | None:
        size = self.matcher.stats().get("bytes")
        return None if size is None else int(size)

    def close(self) -> None:
        del self.matcher
