"""One end of a link: messages go out under numbers, and stay until the other end has taken them.

What is here is durable: a router that crashes comes back with it. A message is acknowledged after it was taken, so it
is lost nowhere; the number tells which came before, so it is taken once and in order.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Generic, TypeVar

Item = TypeVar("Item")

WINDOW = 64
"""Messages that are sent again at once, at most."""


class DurableLink(Generic[Item]):
    """What waits for the other end, and the number of the last message from there."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Item]] = deque()
        self._sent = 0
        self._taken = 0

    def send(self, item: Item) -> int:
        """Keep a message until it is acknowledged; its number."""
        self._sent += 1
        self._waiting.append((self._sent, item))
        return self._sent

    def take(self, number: int) -> bool:
        """Whether the message with this number is the next one, which is then taken."""
        if number != self._taken + 1:
            return False
        self._taken = number
        return True

    @property
    def taken(self) -> int:
        """The number of the last message taken, which is to be acknowledged."""
        return self._taken

    def acknowledge(self, number: int) -> None:
        """Drop the messages up to this number: the other end has taken them."""
        while self._waiting and self._waiting[0][0] <= number:
            self._waiting.popleft()

    def waiting(self) -> list[tuple[int, Item]]:
        """The first messages that were not acknowledged."""
        return list(islice(self._waiting, WINDOW))
