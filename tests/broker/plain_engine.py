"""An engine outside of the broker, without Spark: it matches ranges of the log in this process, and commits them."""

from __future__ import annotations

from typing import Self

from whimbrel.engine.index import Index
from whimbrel.log import EVENT
from whimbrel.log.match_commit import MatchCommit, MatchStatus
from whimbrel.log.version_ranges import VersionRanges, add_versions
from whimbrel.model.schema import Schema
from whimbrel.pipeline.connectors.broker_link import BrokerLink


class PlainEngine:
    """Matches what waits at a broker, at most `most` entries at a time."""

    def __init__(self, url: str, token: str | None = None, most: int = 1_000) -> None:
        self.link = BrokerLink(url, token)
        self.most = most

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.link.close()

    def next_commit(self, status: MatchStatus | None = None) -> MatchCommit | None:
        """The commit of the next range; None if nothing waits."""
        found = status or self.link.status()
        first, until = found.watermark, min(found.until, found.watermark + self.most)
        if first == until:
            return None
        versions = self.link.versions(first, until, 0)
        reading = self.link.reading()
        index = Index(reading.timestamps, None if reading.schema is None else Schema.from_document(reading.schema))
        add_versions(index, versions)
        ends = {one.number: one.until for one in versions if one.until is not None}
        ranges = VersionRanges(ends, {one.number: one.rules for one in versions if one.rules})
        rows = [row for chunk in self.link.chunks(first, until) for row in chunk if row[2] == EVENT and row[4] is None]
        offsets, lists = ranges.match([index], [row[0] for row in rows], [row[3] for row in rows])
        return MatchCommit.of(found.log, first, until, offsets, lists)

    def run(self) -> int:
        """Match and commit until nothing waits; how many ranges."""
        count = 0
        while (commit := self.next_commit()) is not None:
            self.link.commit(commit)
            count += 1
        return count
