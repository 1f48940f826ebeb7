"""A set of runs that grows with the log: new groups in memory, sealed runs in files, neighbours merged behind.

Runs cover the log from its floor on without gaps. As in a log-structured merge tree, every FAN neighbours of about the
same size become one, so that a search looks at some FAN runs per level. Runs of FULL_PAIRS are merged no more, which
bounds the memory of a merge; a search looks at one of them per million pairs or more. When the log is truncated, runs
below the floor are dropped; a run across the floor hides its part below.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from whimbrel.broker.lists.lost_keys import LostKeys
from whimbrel.broker.lists.sorted_run import Run
from whimbrel.storage.atomic import make_directory
from whimbrel.storage.errors import SavedIndexError

FAN = 8
"""Neighbours of one level that become one run of the next."""
SEAL_ENTRIES = 1 << 14
"""Log entries from which on a run is kept in a file. A restart after a crash reads a few times as many from the log."""
FULL_PAIRS = 1 << 20
"""Pairs from which on a run stays as it is. A merge takes FAN times as many at most, some 0.5 GB for a moment."""
_SUFFIX = ".run"


class RunSet:
    """The runs of one kind of list in `directory`. One thread adds; any number of threads read, and never wait.

    `floor` and `end` are those of the log. `digests` says that keys are spread evenly over all int64: then runs have a
    bitmap, see `Run.among`, and what keys lose by truncation is not kept.
    """

    def __init__(self, directory: Path, end: int, digests: bool = False, floor: int = 0) -> None:
        make_directory(directory)
        self._directory = directory
        self._digests = digests
        self._floor = floor
        self._swap = threading.Lock()  # guards the replacement of the tuple, never held while merging
        self._merging = threading.Lock()
        self._lost = LostKeys.open(directory)
        self._runs: tuple[Run, ...] = tuple(self._open(end))

    @property
    def floor(self) -> int:
        """The lowest offset that a search finds."""
        return self._floor

    @property
    def end(self) -> int:
        """The offset up to which the runs cover the log."""
        return self._runs[-1].end if self._runs else self._floor

    @property
    def sealed(self) -> int:
        """The offset up to which the runs are in files."""
        reached = self._floor
        for run in self._runs:
            if not self._path(run).exists():
                break
            reached = run.end
        return reached

    @property
    def lost(self) -> LostKeys:
        """What keys have lost in runs that are gone."""
        return self._lost

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs now, in the order of their offsets."""
        return self._runs

    def add(self, end: int, keys: NDArray[np.int64], offsets: NDArray[np.int64]) -> None:
        """Add the pairs of the log's next entries, up to `end`. Costs some 20 us and the sort of the pairs."""
        if end == self.end:
            return
        run = Run.of(self.end, end, keys, offsets, self._digests)
        with self._swap:
            self._runs = (*self._runs, run)

    def find(self, key: int, after: int = -1, limit: int | None = None) -> NDArray[np.int64]:
        """The offsets of a key above `after` and not below the floor, ascending, at most `limit`."""
        after = max(after, self._floor - 1)
        found: list[NDArray[np.int64]] = []
        count = 0
        for run in self._runs:
            if run.end > after + 1 and len(part := run.find(key, after)):
                found.append(part)
                count += len(part)
                if limit is not None and count >= limit:
                    break
        if not found:
            return np.zeros(0, np.int64)
        joined = found[0] if len(found) == 1 else np.concatenate(found)
        return joined if limit is None else joined[:limit]

    def has_lost(self, key: int, after: int) -> bool:
        """Whether a reader at `after` has missed offsets of a key, because truncation deleted their entries."""
        floor = self._floor
        if self._lost.last_of(key) > after:
            return True
        across = (run for run in self._runs if run.base < floor)
        return any(len(found := run.find(key, after)) and found[0] < floor for run in across)

    def truncate(self, floor: int) -> None:
        """Drop the runs below `floor`, where the log starts now. `sealed` must have reached it."""
        with self._merging:
            self._floor = max(floor, self._floor)
            gone = [run for run in self._runs if run.end <= self._floor]
            self._lose(gone)
            with self._swap:
                self._runs = self._runs[len(gone) :]
            for run in gone:
                self._path(run).unlink(missing_ok=True)

    def forget_lost(self, kept: NDArray[np.int64]) -> None:
        """Keep what these keys have lost, and forget it of all others: nobody asks for them again."""
        with self._merging:
            self._lost = self._lost.only(kept)
            self._lost.save(self._directory)

    def _lose(self, runs: Sequence[Run]) -> None:
        if runs and not self._digests:
            self._lost = self._lost.with_runs(runs)
            self._lost.save(self._directory)

    def needs_merge(self) -> bool:
        """Whether `merge` has something to do; cheap."""
        return _mergeable(self._runs) is not None or self._has_full_in_memory()

    def merge(self) -> None:
        """Merge neighbours until no level has FAN runs, and write full runs to files. Call it in the background."""
        with self._merging:
            if self._has_full_in_memory():
                self._write_all()
            while (span := _mergeable(self._runs)) is not None:
                self._replace(self._runs[slice(*span)])

    def flush(self) -> None:
        """Write what is in memory to files: after a restart nothing is read from the log."""
        with self._merging:
            self._write_all()

    def _write_all(self) -> None:
        """Write the runs in memory to files. Neighbours become one; a run in a file may stand between them."""
        for is_saved, neighbours in groupby(self._runs, lambda run: self._path(run).exists()):
            if not is_saved:
                self._replace(list(neighbours), seal=True)

    def _has_full_in_memory(self) -> bool:
        """Whether a full run, which no merge will write, is in memory. They are written in order: the newest tells."""
        newest = next((run for run in reversed(self._runs) if _is_full(run)), None)
        return newest is not None and not self._path(newest).exists()

    def _replace(self, old: Sequence[Run], seal: bool = False) -> None:
        new = Run.merged(old, self._digests)
        if seal or new.end - new.first >= SEAL_ENTRIES or _is_full(new):
            new = new.save(self._path(new))
        with self._swap:
            place = next(place for place, run in enumerate(self._runs) if run is old[0])
            self._runs = (*self._runs[:place], new, *self._runs[place + len(old) :])
        for run in old:
            if (run.first, run.end) != (new.first, new.end):
                self._path(run).unlink(missing_ok=True)

    def _path(self, run: Run) -> Path:
        return self._directory / f"{run.first:020d}-{run.end:020d}{_SUFFIX}"

    def _open(self, end: int) -> list[Run]:
        """The saved runs that cover the log from its floor on without gaps and not beyond `end`; others are deleted."""
        runs: list[Run] = []
        named = sorted(
            (int(first), -int(last), path)
            for path in self._directory.glob(f"*{_SUFFIX}")
            for first, _, last in [path.stem.partition("-")]
        )
        for first, negative, path in named:
            last = -negative
            is_next = first == runs[-1].end if runs else first <= self._floor
            with contextlib.suppress(SavedIndexError):
                if last <= self._floor:  # the log was truncated, and a crash came before this was done here
                    self._lose([Run.open(path, verify=False)])
                elif is_next and last <= end:
                    runs.append(Run.open(path, verify=False))
                    continue
            path.unlink()
        return runs


def lost_below(directory: Path, floor: int) -> LostKeys:
    """What keys have lost below a floor, read from the files of a set that another process may be using.

    Keys that have lost more since count as if they had lost the entry below the floor. MissingIndex if a file goes
    meanwhile.
    """
    known = LostKeys.open(directory)
    runs = [Run.open(path, verify=False) for path in directory.glob(f"*{_SUFFIX}")]
    found = known.with_runs([run.below(floor) for run in runs if run.base < floor])
    return LostKeys(found.keys, np.minimum(found.last, floor - 1))


def _level(run: Run) -> int:
    """Runs of about FAN times as many entries and pairs are one level higher."""
    size = max(run.end - run.first, len(run.places) // 8, 1)
    return (size.bit_length() - 1) // (FAN.bit_length() - 1)


def _is_full(run: Run) -> bool:
    return len(run.places) >= FULL_PAIRS


def _mergeable(runs: Sequence[Run]) -> tuple[int, int] | None:
    """The newest FAN or more neighbours, none of a higher level than the last, as (start, stop), or None.

    Full runs are left alone.
    """
    stop = len(runs)
    level = 0
    while stop > 0 and not _is_full(runs[stop - 1]):
        level = max(level, _level(runs[stop - 1]))
        start = stop
        while start > 0 and _level(runs[start - 1]) <= level and not _is_full(runs[start - 1]):
            start -= 1
        if stop - start >= FAN:
            pairs = sum(len(run.places) for run in runs[start:stop])
            while pairs > FAN * FULL_PAIRS and stop - start > FAN:
                stop -= 1  # the newest wait: older ones, before the full run that comes of this, would wait for ever
                pairs -= len(runs[stop].places)
            return start, stop
        stop = start
    return None
