"""A run: the sorted (key, offset) pairs of a range of log offsets, in memory or mapped from a file. Immutable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whimbrel.log.matched_numbers import sort_pairs
from whimbrel.storage.array_file import open_file, write_file

_THING = "a run of the broker's lists"
_SPAN = 1 << 32  # offsets are stored relative to the first one, as uint32
_BITS = 16  # of a bitmap per key, at least: of 16 keys that are not there, at least 15 are told apart
_ARRAYS = ("keys", "starts", "places", "bitmap")
_ONE, _SIX, _LOW_SIX = np.uint64(1), np.uint64(6), np.uint64(63)


class Run(NamedTuple):
    """The pairs of the entries with first <= offset < end, and of older events whose matches these entries bring.

    Key number k (they ascend) has the offsets base + places[starts[k]:starts[k + 1]], which ascend too. Where keys are
    digests, `bitmap` has the bit set at the highest bits of every key: most keys that are not there are told by one
    bit, without a search. It is empty otherwise.
    """

    first: int
    end: int
    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    places: NDArray[np.uint32]
    bitmap: NDArray[np.uint64]
    base: int
    in_file: bool = False

    @classmethod
    def of(
        cls, first: int, end: int, keys: NDArray[np.int64], offsets: NDArray[np.int64], digests: bool = False
    ) -> Run:
        """The run of pairs in which offsets ascend for equal keys; `digests` says that keys are spread evenly."""
        base = min(first, int(offsets.min())) if len(offsets) else first
        if end - base > _SPAN:
            raise ValueError(f"Expected a range of at most {_SPAN:,} offsets, but got {end - base:,}")
        ordered, places = sort_pairs(keys, offsets - base)
        heads = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        starts = np.append(heads, len(ordered)).astype(np.int64)
        distinct = ordered[heads]
        bitmap = _bitmap(distinct) if digests else np.zeros(0, np.uint64)
        return cls(first, end, distinct, starts, places.astype(np.uint32), bitmap, base)

    @classmethod
    def merged(cls, runs: Sequence[Run], digests: bool = False) -> Run:
        """One run of neighbours, given in the order of their offsets. Takes some 60 bytes of memory per pair."""
        keys = np.concatenate([np.repeat(run.keys, np.diff(run.starts)) for run in runs])
        offsets = np.concatenate([run.places.astype(np.int64) + run.base for run in runs])
        return cls.of(runs[0].first, runs[-1].end, keys, offsets, digests)

    def among(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of the `keys` that the run has. The bitmap excludes nearly all that it lacks, without a search."""
        maybe = np.arange(len(keys))
        if len(self.bitmap):
            bits = _high_bits(keys, len(self.bitmap))
            maybe = np.flatnonzero(self.bitmap[bits >> _SIX] >> (bits & _LOW_SIX) & _ONE)
        if not len(maybe) or not len(self.keys):
            return maybe[:0]
        places = np.searchsorted(self.keys, keys[maybe])
        places[places == len(self.keys)] = 0
        found: NDArray[np.int64] = maybe[self.keys[places] == keys[maybe]]
        return found

    def find(self, key: int, after: int = -1, limit: int | None = None) -> NDArray[np.int64]:
        """The offsets of a key above `after`, ascending, at most `limit`."""
        return self._places_of(key, after)[:limit].astype(np.int64) + self.base

    def count_of(self, key: int, after: int) -> int:
        """How many offsets of a key lie above `after`. Costs two searches, however many there are."""
        return len(self._places_of(key, after))

    def _places_of(self, key: int, after: int) -> NDArray[np.uint32]:
        """The offsets of a key above `after`, as they are stored: relative to `base`."""
        place = int(np.searchsorted(self.keys, key))
        if place == len(self.keys) or self.keys[place] != key:
            return self.places[:0]
        places = self.places[self.starts[place] : self.starts[place + 1]]
        return places[np.searchsorted(places, after - self.base, "right") :] if after >= self.base else places

    def below(self, end: int) -> Run:
        """The part of the run that lies below an offset."""
        keys = np.repeat(self.keys, np.diff(self.starts))
        offsets = self.places.astype(np.int64) + self.base
        kept = offsets < end
        return Run.of(min(self.first, end), min(end, self.end), keys[kept], offsets[kept])

    def save(self, path: Path) -> Run:
        """Write the run to a file, and return the same run, mapped from it."""
        arrays: dict[str, NDArray[Any]] = {name: getattr(self, name) for name in _ARRAYS}
        write_file(path, arrays, {"first": self.first, "end": self.end, "base": self.base})
        return Run.open(path, verify=False)

    @classmethod
    def open(cls, path: Path, verify: bool = True) -> Run:
        """Map a saved run; a SavedIndexError if it is damaged."""
        arrays, meta = open_file(path, verify, thing=_THING)
        bitmap = arrays.get("bitmap", np.zeros(0, np.uint64))  # files of former versions have none
        first, end = meta["first"], meta["end"]
        base = meta.get("base", first)  # nor have they a base
        return cls(first, end, arrays["keys"], arrays["starts"], arrays["places"], bitmap, base, in_file=True)


def _high_bits(keys: NDArray[np.int64], words: int) -> NDArray[np.uint64]:
    """The bit of each key in a bitmap of `words` words, a power of two."""
    places: NDArray[np.uint64] = keys.view(np.uint64) >> np.uint64(64 - 6 - (words.bit_length() - 1))
    return places


def _bitmap(keys: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A bitmap with 16 to 32 bits per key, one of them set."""
    words = max(2, 1 << (_BITS * len(keys) // 64).bit_length())
    bitmap = np.zeros(words, np.uint64)
    bits = np.sort(_high_bits(keys, words))
    if len(bits):
        words_of = bits >> _SIX
        heads = np.flatnonzero(np.append(True, words_of[1:] != words_of[:-1]))
        bitmap[words_of[heads]] = np.bitwise_or.reduceat(_ONE << (bits & _LOW_SIX), heads)
    return bitmap
