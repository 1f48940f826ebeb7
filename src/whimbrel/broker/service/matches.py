"""Match lists that another engine brings: what waits, which versions hold in a range, and commits of ranges.

A commit is taken in one step, as an entry of the log, iff its range begins at the watermark. So nothing is counted
twice and nothing is left out, however often an engine starts over and wherever it thinks it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic
from typing import cast

import msgspec
import numpy as np

from whimbrel.broker.requests.entries import Change
from whimbrel.broker.requests.errors import Conflict, Unprocessable
from whimbrel.broker.service.opening import OpenedDirectory, versions_between
from whimbrel.broker.service.runtime import Runtime
from whimbrel.log.match_commit import MatchCommit, MatchStatus
from whimbrel.log.version_ranges import SubscriptionVersion


class NotAtWatermark(Conflict):
    """A commit whose range does not begin at the watermark."""

    def __init__(self, commit: MatchCommit, watermark: int) -> None:
        self.watermark = watermark
        super().__init__(
            f"Expected a range that begins at the watermark {watermark}, but got [{commit.first}, {commit.until})"
        )


class CommitAnswer(msgspec.Struct):
    """A commit is in the log; `repeated` if it was there before."""

    watermark: int
    repeated: bool


@dataclass(eq=False)
class MatchCommits:
    """Takes match lists. `end` and `changed` are set by the broker when entries are folded."""

    _runtime: Runtime
    _opened: OpenedDirectory

    def __post_init__(self) -> None:
        opened = self._opened
        self._watermark = opened.watermark
        self._wake = asyncio.Event()
        self._pending: dict[int, int] = {}  # ranges that the store has not seen yet
        self.changed = self.end = opened.writer.end
        self.asked = float("-inf")  # when an engine asked last
        self.commits = 0
        self._stopping = False
        opened.stamps.join("watermark", lambda: self.watermark)  # events that wait are kept

    @property
    def watermark(self) -> int:
        """Every event below is matched."""
        return self._watermark.at(self.end, self._opened.reader.floor)

    @property
    def lag(self) -> int:
        """The entries from the watermark to the last event that waits."""
        return max(0, min(self._watermark.waiting.until, self.end) - self.watermark)

    def status(self) -> MatchStatus:
        """How far events are matched, of the entries that are on disk and folded."""
        log, end = self._opened.reader, self.end
        floor = log.floor
        watermark = self._watermark.at(end, floor)
        until = max(watermark, min(self._watermark.waiting.until, end))
        return MatchStatus(log.id, floor, end, watermark, until, self.changed)

    async def wait(self, seconds: float) -> MatchStatus:
        """The status, as soon as something waits for match lists, or after `seconds`."""
        deadline = monotonic() + seconds
        while True:
            self.asked = monotonic()
            self._wake.clear()
            found = self.status()
            left = deadline - monotonic()
            if found.watermark < found.until or left <= 0 or self._stopping:
                return found
            try:
                async with asyncio.timeout(left):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def stop(self) -> None:
        """End the requests that wait for work: the broker stops. Called in the event loop."""
        self._stopping = True
        self._wake.set()

    def tell(self) -> None:
        """Wake the requests that wait for work. Called in the event loop when something new is folded."""
        self._wake.set()

    def versions(self, first: int, until: int, since: int) -> Iterator[SubscriptionVersion]:
        """The versions that overlap a range; all entries below `until` must be folded."""
        if until > self.end:
            raise Unprocessable(f"Expected a range that ends at {self.end} or before, but got {until}", "bad-range")
        return versions_between(self._opened.store, self._opened.reader, first, until, since)

    async def commit(self, commit: MatchCommit) -> CommitAnswer:
        """Take the lists of a range; NotAtWatermark unless it begins at the watermark or was taken before."""
        if commit.log != self._opened.reader.id:
            raise Conflict(f"Expected the log {self._opened.reader.id}, but got {commit.log[:80]!r}")
        if not 0 <= commit.first < commit.until <= self.end:
            raise Unprocessable(
                f"Expected a range within [0, {self.end}), but got [{commit.first}, {commit.until})", "bad-range"
            )
        if not self._is_taken(commit):
            self._check_place(commit)
            await self._runtime.in_thread(self._check, commit)

        def decide(_: int) -> tuple[list[Change], object]:
            if self._is_taken(commit):
                return [], CommitAnswer(self.watermark, True)
            self._check_place(commit)
            self._watermark.take(commit.until)
            self._pending[commit.first] = commit.until
            return [commit], CommitAnswer(commit.until, False)

        return cast("CommitAnswer", await self._runtime.decide(decide))

    def folded(self, commit: MatchCommit) -> None:
        """Note that the store has applied a commit."""
        self._pending.pop(commit.first, None)
        self.commits += 1

    def _is_taken(self, commit: MatchCommit) -> bool:
        known = self._pending.get(commit.first)
        return (self._opened.store.matching.range_from(commit.first) if known is None else known) == commit.until

    def _check_place(self, commit: MatchCommit) -> None:
        if commit.first != (watermark := self.watermark):
            raise NotAtWatermark(commit, watermark)

    def _check(self, commit: MatchCommit) -> None:
        """Refuse lists of what does not wait, or with numbers that are no versions at that offset."""
        try:
            numbers, offsets = commit.pairs()
        except ValueError as error:
            raise Unprocessable(str(error), "bad-lists") from None
        waiting = np.array(self._opened.reader.unmatched(commit.first, commit.until), np.int64)
        strange = np.setdiff1d(offsets, waiting)
        if len(strange):
            raise Unprocessable(f"Expected events of the range that wait, but {strange[0]} is none", "bad-lists")
        distinct = np.unique(numbers)
        known = dict(self._opened.store.matching.ends(distinct.tolist()))
        unknown = [number for number in distinct.tolist() if number not in known]
        if unknown:
            raise Unprocessable(f"Expected numbers of versions, but {unknown[0]} is none", "bad-lists")
        ends = np.array([commit.until if (end := known[number]) is None else end for number in distinct.tolist()])
        outside = (numbers >= offsets) | (offsets >= ends[np.searchsorted(distinct, numbers)])
        if outside.any():
            pair = int(np.flatnonzero(outside)[0])
            raise Unprocessable(
                f"Expected pairs within the range of their version, but {numbers[pair]} does not see {offsets[pair]}",
                "bad-lists",
            )
