"""Notifications: who is told what, kept as arrays and named when somebody looks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

Key: TypeAlias = int | str

KINDS = ("enter", "leave", "delete")
ENTER, LEAVE, DELETE = range(3)

Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Notification:
    """The subscription is told that the publication entered, left, or was deleted.

    `sequence` is the number of the call that caused it: a notification that comes again after a crash has the same.
    """

    subscription: Key
    publication: Key
    kind: str
    sequence: int = field(default=0, compare=False)


class Notifications(Sequence[Notification]):
    """The notifications of one call, in no particular order, as arrays of numbers that are named one by one."""

    def __init__(
        self,
        subscriptions: Int32s,
        publications: Int32s,
        kinds: Bytes,
        names: tuple[list[Key], list[Key]],
        sequence: int,
    ) -> None:
        self.subscriptions = subscriptions
        self.publications = publications
        self.kinds = kinds
        self.sequence = sequence
        self._names = names

    def __len__(self) -> int:
        return len(self.kinds)

    @overload
    def __getitem__(self, at: int) -> Notification: ...
    @overload
    def __getitem__(self, at: slice) -> Notifications: ...
    def __getitem__(self, at: int | slice) -> Notification | Notifications:
        if isinstance(at, slice):
            parts = self.subscriptions[at], self.publications[at], self.kinds[at]
            return Notifications(*parts, self._names, self.sequence)
        subscriptions, publications = self._names
        return Notification(
            subscriptions[self.subscriptions[at]],
            publications[self.publications[at]],
            KINDS[self.kinds[at]],
            self.sequence,
        )

    def __iter__(self) -> Iterator[Notification]:
        subscriptions, publications = self._names
        columns = self.subscriptions.tolist(), self.publications.tolist(), self.kinds.tolist()
        for subscription, publication, kind in zip(*columns, strict=True):
            yield Notification(subscriptions[subscription], publications[publication], KINDS[kind], self.sequence)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [repr(one) for one in self[:10]]
        return f"[{', '.join(shown)}{f', ... {len(self) - 10:,} more' if len(self) > 10 else ''}]"


class Collected:
    """Notifications while a call gathers them."""

    def __init__(self) -> None:
        self._parts: list[tuple[Int32s, Int32s, Bytes]] = []

    def add(self, subscriptions: Int32s, publications: Int32s, kind: int) -> None:
        """Some of one kind."""
        if len(subscriptions):
            self._parts.append((subscriptions, publications, np.full(len(subscriptions), kind, np.uint8)))

    def add_pairs(self, pairs: Iterable[tuple[int, int]], kind: int) -> None:
        """Some of one kind, as pairs of subscription and publication."""
        both = np.array(list(pairs), np.int32).reshape(-1, 2)
        self.add(both[:, 0], both[:, 1], kind)

    def finish(self, names: tuple[list[Key], list[Key]], sequence: int) -> Notifications:
        """All of them."""
        if len(self._parts) == 1:
            return Notifications(*self._parts[0], names, sequence)
        none = np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.uint8)
        columns = [np.concatenate(column) for column in zip(none, *self._parts, strict=True)]
        return Notifications(columns[0], columns[1], columns[2], names, sequence)
