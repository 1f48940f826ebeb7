"""A commit: the match lists of a range of a log, brought later by whoever matched it; and what still waits for one.

Only events that matched something have a list. On the wire and in the log a commit is one MessagePack array, lists
coded as everywhere in the log (`match_list`), so that a thousand matches take about two kilobytes.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from whimbrel.log import match_list

MEDIA_TYPE = "application/vnd.msgpack"
COMMIT_BYTES = 8 << 20
"""Bytes of the lists of one commit, at most, but for a single list that is longer."""


class MatchStatus(msgspec.Struct, frozen=True):
    """How far the events of a log are matched. Events with watermark <= offset < until wait, if `until` is above.

    `changed` is the offset behind the last change of subscriptions, tokens or schema; `log` is the id of the log.
    """

    log: str
    floor: int
    end: int
    watermark: int
    until: int
    changed: int


class MatchCommit(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The matches of the events with `first <= offset < until` of the log with the id `log`.

    `offsets` are those of the events that matched, coded as one match list; `lists` has a coded list for each.
    """

    log: str
    first: int
    until: int
    offsets: bytes
    lists: list[bytes]

    @classmethod
    def of(cls, log: str, first: int, until: int, offsets: NDArray[np.int64], lists: list[bytes]) -> MatchCommit:
        """The commit of a range; `offsets` ascend, and each has its list."""
        return cls(log, first, until, match_list.encode(offsets), lists)

    def pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The numbers and the offsets of all pairs, in the order of offsets; ValueError if they are not well formed."""
        _, places = match_list.decode_all([self.offsets])
        if len(places) != len(self.lists):
            raise ValueError(f"Expected as many lists as offsets, but got {len(self.lists):,} and {len(places):,}")
        bounds, numbers = match_list.decode_all(self.lists)
        counts = np.diff(bounds)
        inner = np.ones(len(numbers), bool)
        inner[bounds[:-1][counts > 0]] = False  # the first of each list has no predecessor
        if len(places) and (np.any(np.diff(places) <= 0) or not counts.all()):
            raise ValueError("Expected ascending offsets, each with a list that is not empty")
        if np.any(np.diff(numbers, prepend=0)[inner] <= 0):
            raise ValueError("Expected ascending numbers in each list")
        return numbers, np.repeat(places, counts)

    def split(self, size: int) -> Iterator[MatchCommit]:
        """Commits of neighbouring ranges that make up this one, each with lists of about `size` bytes at most."""
        _, places = match_list.decode_all([self.offsets])
        first, start, held = self.first, 0, 0
        for place, coded in enumerate(self.lists):
            if place > start and held + len(coded) > size:
                until = int(places[place])
                yield MatchCommit.of(self.log, first, until, places[start:place], self.lists[start:place])
                first, start, held = until, place, 0
            held += len(coded)
        yield MatchCommit.of(self.log, first, self.until, places[start:], self.lists[start:])


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(MatchCommit)


def encode(commit: MatchCommit) -> bytes:
    """A commit as bytes."""
    return _encoder.encode(commit)


def decode(content: bytes) -> MatchCommit:
    """The commit of these bytes; ValueError if they are none."""
    try:
        return _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"Expected the match lists of a range, but got: {error}") from None
