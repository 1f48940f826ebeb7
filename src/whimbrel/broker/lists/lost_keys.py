"""The last offset that each key lost when the log was truncated: whether a reader behind it has missed something.

A subscription that matched nothing for long has a cursor far below the floor of the log and yet has missed nothing. So
when a run of match lists is dropped, the last offset of each of its keys is kept, 16 bytes per key, in one file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from whimbrel.broker.lists.sorted_run import Run
from whimbrel.storage.array_file import open_file, write_file
from whimbrel.storage.errors import MissingIndex

FILE_NAME = "lost.keys"
_THING = "the keys that were lost"


class LostKeys(NamedTuple):
    """Ascending keys, and the last offset that each has lost. Immutable."""

    keys: NDArray[np.int64]
    last: NDArray[np.int64]

    @classmethod
    def open(cls, directory: Path) -> LostKeys:
        """What was saved in a directory of runs; nothing if there is no file."""
        try:
            arrays, _ = open_file(directory / FILE_NAME, thing=_THING)
        except MissingIndex:
            return cls(np.zeros(0, np.int64), np.zeros(0, np.int64))
        return cls(np.array(arrays["keys"]), np.array(arrays["last"]))

    def save(self, directory: Path) -> None:
        """Write them, replacing what was saved before."""
        write_file(directory / FILE_NAME, {"keys": self.keys, "last": self.last}, {})

    def with_runs(self, runs: Sequence[Run]) -> LostKeys:
        """Return these and the keys of some runs, each with the last offset that it lost."""
        parts = [(self.keys, self.last)]
        parts += [(run.keys, run.places[run.starts[1:] - 1].astype(np.int64) + run.base) for run in runs]
        keys, last = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = np.lexsort((last, keys))
        keys, last = keys[order], last[order]
        is_last = np.append(keys[1:] != keys[:-1], True)[: len(keys)]
        return LostKeys(keys[is_last], last[is_last])

    def only(self, kept: NDArray[np.int64]) -> LostKeys:
        """Return what some keys have lost, and nothing of others."""
        mask = np.isin(self.keys, kept)
        return LostKeys(self.keys[mask], self.last[mask])

    def last_of(self, key: int) -> int:
        """The last offset that a key has lost; -1 if none."""
        place = int(np.searchsorted(self.keys, key))
        return int(self.last[place]) if place < len(self.keys) and self.keys[place] == key else -1
