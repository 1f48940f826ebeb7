"""What goes through the sequencer: requests, and the groups in which they become durable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from whimbrel.broker.requests import entries
from whimbrel.broker.requests.entries import Change, SubscriptionPut
from whimbrel.broker.requests.envelope import Incoming
from whimbrel.broker.requests.errors import BrokerError, InternalError, NotFound
from whimbrel.log.match_list import encode
from whimbrel.model.token_rules import Rules

logger = logging.getLogger("whimbrel.broker")


class Published(NamedTuple):
    """An event is in the log at `offset`; `duplicate` if it was there before."""

    offset: int
    duplicate: bool = False


class Result(Protocol):
    """A future, of a thread or of an event loop."""

    def set_result(self, result: Any, /) -> None:
        """Give the answer."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Give the error."""


class IgnoredResult:
    """A result that nobody waits for."""

    def set_result(self, result: object, /) -> None:
        """Ignore the answer."""

    def set_exception(self, exception: BaseException, /) -> None:
        """Write the error to the program's log."""
        if not isinstance(exception, NotFound):
            logger.warning("a change was refused: %s", exception)


Answer: TypeAlias = tuple[Result, object]
"""A future and its result; an exception becomes its exception."""


class Forwarding(NamedTuple):
    """Events that come from a peer: published at `origin` at these `offsets`, with the prefixes that they came with.

    `positions` are their offsets in the log of the peer.
    """

    peer: str
    origin: str
    offsets: list[int]
    positions: list[int]
    prefixes: list[bytes]


@dataclass(slots=True)
class Publish:
    """Events of one principal; the answer is a list of Published or BrokerError, one for each."""

    events: list[Incoming]
    result: Result
    publisher: str = ""
    tenant: str = ""
    rules: Rules = field(default_factory=dict)
    forwarding: Forwarding | None = None
    size: int = 0
    """The bytes of all events."""
    submitted: float = 0.0

    def __post_init__(self) -> None:
        self.size = sum(len(event.raw) for event in self.events)


@dataclass(slots=True)
class Batch:
    """Requests that are decided together with others of their kind: `decide` gets all those of a group.

    It adds rows to the group and the answer of each batch. If reading a batch raises what nobody expected, it answers
    with `unexpected`; an exception that it lets through ends the broker. `count` and `size` (bytes) are what the batch
    counts for in the queue.
    """

    decide: Callable[[RequestGroup, list[Batch]], None]
    content: Any
    count: int
    size: int
    result: Result
    submitted: float = 0.0


@dataclass(slots=True)
class Decide:
    """A change. `decide` runs in the sequencer, with the offset that a first entry will get.

    It returns the entries to append and the answer, or raises a WhimbrelError before it changes anything. Any other
    exception ends the broker: the index may have a part of the change.
    """

    decide: Callable[[int], tuple[list[Change], object]]
    result: Result
    submitted: float = 0.0


Notice: TypeAlias = Callable[[int], "bytes | None"]
"""From the number of a subscription to the message that an entry means for it; None if it is read from the log."""


class LivePairs(NamedTuple):
    """What streams are told about a group: events and notices by offset, and the (number, offset) pairs that matched.

    An entry other than an event has a notice, or its messages are read from the log.
    """

    events: dict[int, bytes]
    notices: dict[int, Notice]
    numbers: NDArray[np.int64]
    offsets: NDArray[np.int64]


class FirstTold(NamedTuple):
    """What a new version of a subscription on publications or on a space is told first.

    `entered` and `left` are the offsets of the entries whose states it begins and ceases to match. `inside` has the
    keys that it remembers, and when each leaves.
    """

    entered: list[int]
    left: list[int]
    inside: list[tuple[str, float | None]]


@dataclass(slots=True)
class RequestGroup:
    """Requests that become durable together: their log entries, answers, and who is told."""

    first: int
    rows: list[tuple[int, bytes, bytes | None]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    changes: list[tuple[int, Change]] = field(default_factory=list)
    events: dict[int, bytes] = field(default_factory=dict)
    notices: dict[int, Notice] = field(default_factory=dict)
    numbers: list[NDArray[np.int64]] = field(default_factory=list)
    offsets: list[NDArray[np.int64]] = field(default_factory=list)
    refused: list[tuple[str, bytes, BrokerError]] = field(default_factory=list)
    durable: bool = False
    appended: float = 0.0  # when it was given to the writer of the log

    @property
    def next(self) -> int:
        """The offset that the next entry will get."""
        return self.first + len(self.rows)

    def append(self, change: Change, told: Sequence[int] | None = None) -> int:
        """Append the entry of a change, and return its offset; `told` are the versions that get messages of it."""
        offset = self.next
        self.changes.append((offset, change))
        self.rows.append(entries.encode(change, None if told is None else encode(told)))
        self.tell(told or (), offset)
        return offset

    def tell(self, numbers: Sequence[int], offset: int) -> None:
        """Tell versions of subscriptions of the entry at an offset."""
        if numbers:
            self.numbers.append(np.array(numbers, np.int64))
            self.offsets.append(np.full(len(numbers), offset, np.int64))

    def complete(self, first_told: dict[int, FirstTold]) -> None:
        """Put what new versions of subscriptions are told first, by their numbers, into their entries.

        A version without an entry was admitted and then refused: nobody is told.
        """
        for place, (offset, change) in enumerate(self.changes if first_told else ()):
            if offset in first_told and isinstance(change, SubscriptionPut):
                entered, left, inside = first_told[offset]
                put = msgspec.structs.replace(change, entered=encode(entered), left=encode(left), inside=inside)
                told = [offset] if entered or left else []
                self.changes[place] = offset, put
                self.rows[offset - self.first] = entries.encode(put, encode(told) if told else None)
                self.tell(told, offset)

    def pairs(self) -> LivePairs:
        """The events and all pairs, including pairs of ephemeral subscriptions."""
        empty = np.zeros(0, np.int64)
        numbers, offsets = np.concatenate([empty, *self.numbers]), np.concatenate([empty, *self.offsets])
        return LivePairs(self.events, self.notices, numbers, offsets)


def unexpected(error: Exception) -> InternalError:
    """Log an exception that nobody expected, and return the answer to the request that caused it.

    Call it only where the request has changed nothing yet: neither the group, nor the index, nor any other state.
    """
    logger.error("a request could not be decided", exc_info=error)
    return InternalError(f"Expected to decide the request, but the broker made a mistake: {error}")


def settle_now(answers: list[Answer]) -> None:
    """Complete futures in the calling thread."""
    for result, answer in answers:
        if isinstance(answer, BaseException):
            result.set_exception(answer)
        else:
            result.set_result(answer)
