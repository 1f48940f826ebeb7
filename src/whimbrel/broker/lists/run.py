"""A run: the sorted (key, offset) pairs of a range of log offsets, in memory or mapped from a file. Immutable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from whimbrel.storage.array_file import open_file, write_file

_THING = "a run of the broker's lists"
_SPAN = 1 << 32  # offsets are stored relative to the first one, as uint32


class Run(NamedTuple):
    """The pairs of the entries with first <= offset < end.

    Key number k (they ascend) has the offsets first + places[starts[k]:starts[k + 1]], which ascend too.
    """

    first: int
    end: int
    keys: NDArray[np.int64]
    starts: NDArray[np.int64]
    places: NDArray[np.uint32]

    @classmethod
    def of(cls, first: int, end: int, keys: NDArray[np.int64], offsets: NDArray[np.int64]) -> Run:
        """The run of pairs in which offsets ascend for equal keys."""
        if end - first > _SPAN:
            raise ValueError(f"Expected a range of at most {_SPAN:,} offsets, but got {end - first:,}")
        ordered, places = sort_pairs(keys, offsets - first)
        heads = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        starts = np.append(heads, len(ordered)).astype(np.int64)
        return cls(first, end, ordered[heads], starts, places.astype(np.uint32))

    @classmethod
    def merged(cls, runs: Sequence[Run]) -> Run:
        """One run of neighbours, given in the order of their offsets."""
        keys = np.concatenate([np.repeat(run.keys, np.diff(run.starts)) for run in runs])
        offsets = np.concatenate([run.places.astype(np.int64) + run.first for run in runs])
        return cls.of(runs[0].first, runs[-1].end, keys, offsets)

    def find(self, key: int, after: int = -1) -> NDArray[np.int64]:
        """The offsets of a key above `after`, ascending."""
        place = int(np.searchsorted(self.keys, key))
        if place == len(self.keys) or self.keys[place] != key:
            return np.zeros(0, np.int64)
        places = self.places[self.starts[place] : self.starts[place + 1]]
        if after >= self.first:
            places = places[np.searchsorted(places, after - self.first, "right") :]
        return places.astype(np.int64) + self.first

    def save(self, path: Path) -> Run:
        """Write the run to a file, and return the same run, mapped from it."""
        arrays: dict[str, NDArray[Any]] = {"keys": self.keys, "starts": self.starts, "places": self.places}
        write_file(path, arrays, {"first": self.first, "end": self.end})
        return Run.open(path, verify=False)

    @classmethod
    def open(cls, path: Path, verify: bool = True) -> Run:
        """Map a saved run; a SavedIndexError if it is damaged."""
        arrays, meta = open_file(path, verify, thing=_THING)
        return cls(meta["first"], meta["end"], arrays["keys"], arrays["starts"], arrays["places"])


def sort_pairs(keys: NDArray[np.int64], values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs in the order of keys, then of values, which must not be negative.

    Where both fit into 63 bits they are sorted as one number, several times as fast as by an order of places.
    """
    if not len(keys):
        return keys, values
    low = int(keys.min())
    bits = int(values.max()).bit_length()
    if (int(keys.max()) - low).bit_length() + bits > 63:
        order = np.lexsort((values, keys))
        return keys[order], values[order]
    packed = ((keys - low) << bits) | values
    packed.sort()
    return (packed >> bits) + low, packed & ((1 << bits) - 1)
