"""Notifications: which subscription is told what of which publication.

A call returns them as arrays of numbers. Keys and contents are looked up when a notification is read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Protocol, TypeAlias, overload

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32s
from whimbrel.spaces.dimensions.interval import Interval
from whimbrel.spaces.dimensions.space_definitions import Key

KINDS = ("enter", "leave", "delete")
ENTER, LEAVE, DELETE = range(3)

Content: TypeAlias = list[dict[str, Interval]]


class ContentSource(Protocol):
    """Gives the regions that publications had at the time of a call."""

    def of(self, number: int) -> Content | None:
        """The regions of one publication."""


@dataclass(frozen=True, slots=True)
class Notification:
    """The publication entered the subscription, left it, or was deleted.

    `sequence` is the number of the call that caused it. A notification that is repeated after a crash has the same.
    """

    subscription: Key
    publication: Key
    kind: str
    sequence: int = field(default=0, compare=False)
    _content: Content | tuple[ContentSource, int] | None = field(default=None, compare=False, repr=False)

    @property
    def content(self) -> Content | None:
        """The regions of the publication after that call; None with `delete`."""
        if isinstance(self._content, tuple):
            contents, number = self._content
            return contents.of(number)
        return self._content

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle with the content."""
        return Notification, (self.subscription, self.publication, self.kind, self.sequence, self.content)


class Notifications(Sequence[Notification]):
    """The notifications of one call, unsorted. They are arrays of numbers; items are made when they are read."""

    def __init__(
        self,
        subscriptions: Int32s,
        publications: Int32s,
        kinds: Bytes,
        names: tuple[list[Key], list[Key]],
        sequence: int,
        contents: tuple[list[int], list[ContentSource | None]],
        places: range,
    ) -> None:
        self.subscriptions = subscriptions
        self.publications = publications
        self.kinds = kinds
        self.sequence = sequence
        self._names = names
        self._ends, self._contents = contents
        self._places = places

    def __len__(self) -> int:
        return len(self.kinds)

    @overload
    def __getitem__(self, at: int) -> Notification: ...
    @overload
    def __getitem__(self, at: slice) -> Notifications: ...
    def __getitem__(self, at: int | slice) -> Notification | Notifications:
        if isinstance(at, slice):
            parts = self.subscriptions[at], self.publications[at], self.kinds[at]
            contents = self._ends, self._contents
            return Notifications(*parts, self._names, self.sequence, contents, self._places[at])
        return self._made(
            int(self.subscriptions[at]), int(self.publications[at]), int(self.kinds[at]), self._places[at]
        )

    def __iter__(self) -> Iterator[Notification]:
        columns = self.subscriptions.tolist(), self.publications.tolist(), self.kinds.tolist()
        for row in zip(*columns, self._places, strict=True):
            yield self._made(*row)

    def _made(self, subscription: int, publication: int, kind: int, place: int) -> Notification:
        subscriptions, publications = self._names
        contents = self._contents[bisect_right(self._ends, place)]
        content = None if contents is None else (contents, publication)
        return Notification(subscriptions[subscription], publications[publication], KINDS[kind], self.sequence, content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [repr(one) for one in self[:10]]
        return f"[{', '.join(shown)}{f', ... {len(self) - 10:,} more' if len(self) > 10 else ''}]"


class NotificationBuilder:
    """Collects the notifications of a call."""

    def __init__(self) -> None:
        self._parts: list[tuple[Int32s, Int32s, Bytes]] = []
        self._contents: list[ContentSource | None] = []
        self.contents: ContentSource | None = None
        """The contents of the publications of later `add` calls."""

    def add(self, subscriptions: Int32s, publications: Int32s, kind: int) -> None:
        """Add pairs of a subscription and a publication, all of one kind."""
        if len(subscriptions):
            self._parts.append((subscriptions, publications, np.full(len(subscriptions), kind, np.uint8)))
            self._contents.append(self.contents)

    def add_pairs(self, pairs: Iterable[tuple[int, int]], kind: int) -> None:
        """Add (subscription, publication) pairs of one kind."""
        both = np.array(list(pairs), np.int32).reshape(-1, 2)
        self.add(both[:, 0], both[:, 1], kind)

    def finish(self, names: tuple[list[Key], list[Key]], sequence: int) -> Notifications:
        """The notifications collected so far, with the keys by number and the sequence number of the call."""
        ends = list(accumulate(len(part[0]) for part in self._parts))
        contents = ends, self._contents
        if len(self._parts) == 1:
            return Notifications(*self._parts[0], names, sequence, contents, range(ends[0]))
        none = np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.uint8)
        columns = [np.concatenate(column) for column in zip(none, *self._parts, strict=True)]
        return Notifications(columns[0], columns[1], columns[2], names, sequence, contents, range(len(columns[0])))
