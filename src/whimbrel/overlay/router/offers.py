"""What one neighbour was told of the filters that are wanted here, and which of them need not be told.

A filter that another one covers is not sent, and rests on that one, which was sent or rests itself. So when a filter
ends, exactly those that rest on it have to be offered again. With the nearest covering filter in that place the filters
of a chain rest on each other one by one, and the end of any of them moves one other.
"""

from __future__ import annotations


class Offers:
    """The filters, by their keys, that a neighbour was sent, and those that rest on others."""

    __slots__ = ("_above", "_below", "sent")

    def __init__(self, sent: set[bytes] | None = None) -> None:
        self.sent: set[bytes] = sent or set()
        self._above: dict[bytes, bytes] = {}
        self._below: dict[bytes, dict[bytes, None]] = {}

    def __contains__(self, key: bytes) -> bool:
        return key in self.sent or key in self._above

    def send(self, key: bytes) -> None:
        """Note that a filter is sent. It rests on no other from now on."""
        self._leave(key)
        self.sent.add(key)

    def rest(self, key: bytes, above: bytes) -> None:
        """Note that a new filter is not sent because the filter `above`, which is here, covers it."""
        self._above[key] = above
        self._below.setdefault(above, {})[key] = None

    def remove(self, key: bytes) -> list[bytes]:
        """Forget a filter. Return those that rested on it: they are forgotten too, and have to be offered again."""
        self.sent.discard(key)
        self._leave(key)
        orphans = list(self._below.pop(key, ()))
        for orphan in orphans:
            del self._above[orphan]
        return orphans

    def _leave(self, key: bytes) -> None:
        above = self._above.pop(key, None)
        if above is not None:
            below = self._below[above]
            del below[key]
            if not below:
                del self._below[above]

    def _check(self) -> None:
        """Assert every invariant: what rests, rests on a filter that is here, and in the end on one that was sent."""
        assert self.sent.isdisjoint(self._above)
        for key in self._above:
            assert key in self._below[self._above[key]]
            one, seen = key, set[bytes]()
            while one not in self.sent:
                assert one not in seen, "filters that rest on each other"
                seen.add(one)
                one = self._above[one]
        assert sum(map(len, self._below.values())) == len(self._above)
