"""A broker as the pipeline sees it: its log a page at a time, versions of subscriptions, and commits of match lists."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Self

import msgspec
import pyarrow as pa

from whimbrel.client import Client, Refused, wire
from whimbrel.log import EVENT, BelowFloor, BeyondEnd
from whimbrel.log.match_commit import MEDIA_TYPE, MatchCommit, MatchStatus, encode
from whimbrel.log.reader import CHUNK, Row
from whimbrel.log.version_ranges import SubscriptionVersion


class EventReading(msgspec.Struct, frozen=True):
    """How a broker reads events: attributes with timestamps, and the document of its schema."""

    timestamps: list[str]
    schema: dict[str, object] | None = None


class _CommitAnswer(msgspec.Struct):
    watermark: int


class BrokerLink:
    """An open connection to a broker, which is used by one thread. It also reads as a log: see `LogReader`."""

    def __init__(self, url: str, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        """`tls` says whom to trust; without it the authorities that the system knows."""
        self.directory = url
        self._client = Client(url, token, source="whimbrel-pipeline", tls=tls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def status(self, wait: float = 0.0) -> MatchStatus:
        """Ask what waits for its match lists. The broker answers when something does, or after `wait` seconds."""
        call = wire.Call("GET", "/matches", query={"wait": f"{wait:g}"}, patience=wait)
        return msgspec.json.decode(self._client.call(call), type=MatchStatus)

    def reading(self) -> EventReading:
        """Ask the broker how it reads events."""
        return msgspec.json.decode(self._client.call(wire.get("/matches/settings")), type=EventReading)

    def versions(self, first: int, until: int, since: int) -> list[SubscriptionVersion]:
        """The versions that overlap [first, until) and began or ended at `since` or later."""
        query = {"from": str(first), "until": str(until), "since": str(since)}
        lines = self._client.call(wire.Call("GET", "/subscriptions/export", query=query))
        decoder = msgspec.json.Decoder(SubscriptionVersion)
        return decoder.decode_lines(lines)

    def commit(self, commit: MatchCommit) -> int | None:
        """Post the match lists of a range. A commit that is sent again is recognised.

        Return the new watermark; None if the range does not begin at the present one.
        """
        headers = {"content-type": MEDIA_TYPE}
        call = wire.Call("POST", "/matches/commits", encode(commit), headers)
        try:
            return msgspec.json.decode(self._client.call(call), type=_CommitAnswer).watermark
        except Refused as refused:
            if refused.status == 409:
                return None
            raise

    @property
    def id(self) -> str:
        """The id of the log."""
        return self.status().log

    @property
    def end(self) -> int:
        """The offset that the next entry will get."""
        return self.status().end

    @property
    def bounds(self) -> tuple[int, int]:
        """The floor and the end of the log."""
        status = self.status()
        return status.floor, status.end

    def chunks(self, start: int, end: int, size: int = CHUNK) -> Iterator[list[Row]]:
        """The events of [start, end) in lists, as many as a page of the broker has; `size` is that of a `LogReader`."""
        while start < end:
            query = {"from": str(start), "until": str(end)}
            try:
                content = self._client.call(wire.Call("GET", "/log", query=query))
            except Refused as refused:
                if refused.status == 410:
                    raise BelowFloor(self.directory, start, self.bounds[0]) from None
                if refused.code == "bad-range":
                    raise BeyondEnd(self.directory, end, self.end) from None
                raise
            with pa.ipc.open_stream(content) as stream:
                start = int(stream.schema.metadata[b"next"])
                table = stream.read_all()
            columns = [table["offset"], table["time"].cast(pa.int64()), table["event"], table["matches"]]
            rows = zip(*(column.to_pylist() for column in columns), strict=True)
            yield [(offset, time, EVENT, event, matches) for offset, time, event, matches in rows]
