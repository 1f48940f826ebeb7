"""A set of runs that grows with the log: new groups in memory, sealed runs in files, neighbours merged behind.

Runs cover the log from its floor on without gaps. As in a log-structured merge tree, every FAN neighbours of about the
same size become one, so that a search looks at some FAN runs per level. Full runs are merged no more, which bounds the
memory of a merge; a search looks at one of them per million pairs or more. What is in memory lies behind all files:
after a crash a file behind a run that was lost would be of no use. When the log is truncated, runs below the floor are
dropped; a run across the floor hides its part below.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
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
FULL_ENTRIES = 1 << 28
"""Log entries from which on a run stays as it is, however few pairs it has: FAN of them still fit into one `Run`."""
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
            if not run.in_file:
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
        found = [np.zeros(0, np.int64)]
        left = limit
        for run in self._runs:
            if left == 0:
                break
            if run.end > after + 1 and len(part := run.find(key, after, left)):
                found.append(part)
                left = None if left is None else left - len(part)
        return np.concatenate(found)

    def count(self, key: int, after: int) -> int:
        """How many offsets of a key lie above `after` and not below the floor. Costs a search per run."""
        after = max(after, self._floor - 1)
        return sum(run.count_of(key, after) for run in self._runs if run.end > after + 1)

    def has_lost(self, key: int, after: int) -> bool:
        """Whether a reader at `after` has missed offsets of a key, because truncation deleted their entries."""
        runs = self._runs  # read first: a run that is dropped meanwhile has its keys among the lost ones by then
        floor = self._floor
        if self._lost.last_of(key) > after:
            return True
        across = (run for run in runs if run.base < floor)
        return any(found < floor for run in across for found in run.find(key, after, 1))

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
        runs = self._runs
        return _has_full_in_memory(runs) or _mergeable(runs) is not None

    def merge(self) -> None:
        """Merge neighbours until no level has FAN runs, and write full runs to files. Call it in the background."""
        with self._merging:
            while True:
                runs = self._runs
                if _has_full_in_memory(runs):
                    self._write(runs)
                elif (span := _mergeable(runs)) is None:
                    return
                elif self._replace(runs[slice(*span)]).in_file:
                    self._write(runs[: span[0]])

    def flush(self) -> None:
        """Write what is in memory to files: after a restart nothing is read from the log."""
        with self._merging:
            self._write(self._runs)

    def _write(self, runs: Sequence[Run]) -> None:
        """Write those of some runs that are in memory to files. Neighbours become one."""
        for neighbours in _in_memory(runs):
            self._replace(neighbours, seal=True)

    def _replace(self, old: Sequence[Run], seal: bool = False) -> Run:
        """Replace neighbours by one run, in a file if it is large or to `seal`, and return it."""
        new = Run.merged(old, self._digests) if len(old) > 1 else old[0]
        if seal or new.end - new.first >= SEAL_ENTRIES or _is_full(new):
            new = new.save(self._path(new))
        with self._swap:
            place = next(place for place, run in enumerate(self._runs) if run is old[0])
            self._runs = (*self._runs[:place], new, *self._runs[place + len(old) :])
        for run in old:
            if (run.first, run.end) != (new.first, new.end):
                self._path(run).unlink(missing_ok=True)
        return new

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
    return len(run.places) >= FULL_PAIRS or run.end - run.first >= FULL_ENTRIES


def _has_full_in_memory(runs: Sequence[Run]) -> bool:
    """Whether a full run, which no merge would write, is in memory."""
    return any(_is_full(run) and not run.in_file for run in runs)


def _in_memory(runs: Sequence[Run]) -> Iterator[Sequence[Run]]:
    """The runs in memory, neighbours together as far as they can be merged; a run in a file may stand between them."""
    start = 0
    for at in range(1, len(runs) + 1):
        if at == len(runs) or runs[at].in_file != runs[start].in_file or _is_too_large(runs[start : at + 1]):
            if not runs[start].in_file:
                yield runs[start:at]
            start = at


def _is_too_large(runs: Sequence[Run]) -> bool:
    """Whether one run of these neighbours would have more pairs or entries than FAN full runs."""
    too_many = sum(len(run.places) for run in runs) > FAN * FULL_PAIRS
    return too_many or runs[-1].end - runs[0].first > FAN * FULL_ENTRIES


def _mergeable(runs: Sequence[Run]) -> tuple[int, int] | None:
    """The newest FAN or more neighbours, none of a higher level than the last, as (start, stop), or None.

    Full runs are left alone. Where the neighbours are too large together, the newest of them wait: older ones, before
    the full run that comes of this, would wait for ever.
    """
    stop = len(runs)
    level = 0
    while stop > 0 and not _is_full(runs[stop - 1]):
        level = max(level, _level(runs[stop - 1]))
        start = stop
        while start > 0 and _level(runs[start - 1]) <= level and not _is_full(runs[start - 1]):
            start -= 1
        if stop - start >= FAN:
            while stop - start > FAN and _is_too_large(runs[start:stop]):
                stop -= 1
            return start, stop
        stop = start
    return None
