"""Follow a stream of Server-Sent Events over many connections, without I/O: parse, resume, count what was dropped."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import msgspec

from whimbrel.client.errors import StreamEnded
from whimbrel.client.wire import Message, pause, subscription_path

logger = logging.getLogger("whimbrel.client")

RECONNECT_REASONS = frozenset({"stopping", "slow-consumer", "token-changed"})
"""Reasons of an end after which a stream is opened again."""


class EventParser:
    """Server-Sent Events from pieces of a stream.

    >>> parser = EventParser()
    >>> list(parser.feed(b'id: 7\\ndata: {"a": 1}\\n')), list(parser.feed(b"\\n: heartbeat\\n\\n"))
    ([], [('message', '7', b'{"a": 1}')])
    """

    def __init__(self) -> None:
        self._rest = b""
        self._name, self._id = "message", ""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[tuple[str, str, bytes]]:
        """The (name, id, data) of the events that are whole now."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            line = line.removesuffix(b"\r")  # noqa: PLW2901
            if not line:
                if self._data:
                    yield self._name, self._id, b"\n".join(self._data)
                self._name, self._data = "message", []
                continue
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if field == b"data":
                self._data.append(value)
            elif field == b"id":
                self._id = value.decode(errors="replace")
            elif field == b"event":
                self._name = value.decode(errors="replace")


class Following:
    """The state of a stream that is followed over many connections, without I/O."""

    def __init__(
        self, filter: str | None, id: str | None, after: str | int | None, options: Mapping[str, str | None]
    ) -> None:
        if (filter is None) == (id is None):
            raise ValueError("Expected either a filter or the id of a subscription")
        self.path = "/stream" if id is None else f"{subscription_path(id)}/stream"
        self.query = {} if filter is None else {"filter": filter}
        self.query |= {name: value for name, value in options.items() if value is not None}
        self._is_durable = id is not None
        self._last = None if after is None else str(after)
        self._attempt = 0
        self._dropped = self._untold = 0  # messages that this connection lost; those of them that nobody was told
        self._gap: int | None = None  # messages below this offset were deleted, and nobody was told
        self._parser = EventParser()

    def connecting(self) -> Mapping[str, str]:
        """Start a connection, and return its headers."""
        self._parser = EventParser()
        self._dropped = 0
        return {} if self._last is None else {"last-event-id": self._last}

    def feed(self, piece: bytes) -> Iterator[Message]:
        """The messages that a piece of the stream completes. StreamEnded if the broker ended it for good.

        When the caller asks for the next message, the one before counts as delivered.
        """
        for name, at, data in self._parser.feed(piece):
            if name == "end":
                reason = str(msgspec.json.decode(data)["reason"])
                if reason not in RECONNECT_REASONS:
                    raise StreamEnded(reason)
            elif name == "dropped":
                total = int(msgspec.json.decode(data)["dropped"])
                self._untold, self._dropped = self._untold + total - self._dropped, total
            elif name == "gap":
                self._gap = int(msgspec.json.decode(data)["first"])
            elif name == "message":
                self._attempt = 0
                dropped, self._untold = self._untold, 0
                gap, self._gap = self._gap, None
                yield Message(int(at.partition(".")[0]), at, msgspec.json.decode(data), dropped, gap)
                self._last = at if self._is_durable else None

    def failed(self, url: str, problem: Exception) -> None:
        """Tell the log that no connection can be made, if none was tried or made just before."""
        if self._attempt == 0:
            reason = str(problem) or type(problem).__name__
            logger.warning("%s cannot be reached (%s): trying again until it can", url, reason)

    def pause(self, headers: Mapping[str, str] = {}) -> float:
        """Note the end of a connection, and return the seconds to wait before the next one."""
        self._attempt += 1
        return pause(self._attempt - 1, headers)
