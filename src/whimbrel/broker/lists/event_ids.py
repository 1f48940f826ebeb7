"""Which events were published before: (tenant, source, id) to the offset, as 64-bit digests in sorted lists.

Digests of entries that are not sealed yet are in dicts, at most some hundred thousand. The others are in runs, which
are mapped files: they take disk, some 22 bytes per event, and of memory only what the system caches. A digest found in
a run is checked against the log, so that two events with the same digest are never taken for one. An event that is no
longer in the log is not known any more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec
import numpy as np

from whimbrel.broker.lists import RunSet
from whimbrel.log import BelowFloor, LogReader


class EventNames(msgspec.Struct, gc=False):
    """The attributes by which an event is known, of all that it has."""

    source: str
    id: str


SEAL_EVENTS = 1 << 16
"""Events whose digests are kept in a dict before they go to a file: dicts are searched faster than many small files."""

read_names = msgspec.json.Decoder(EventNames).decode
"""The names of an event in JSON."""


class EventIds:
    """The ids of all events of a log. Only the sequencer looks up and remembers; another thread may call `seal`."""

    def __init__(self, directory: Path, reader: LogReader) -> None:
        self._reader = reader
        self._keyed = blake2b(digest_size=8, key=bytes.fromhex(reader.id))
        self._runs = RunSet(directory, reader.end, digests=True, floor=reader.floor)
        self._tail: dict[int, int] = {}
        self._end = self._runs.end  # the entries below are in runs, full dicts or the tail
        self._full: tuple[tuple[int, dict[int, int]], ...] = ()  # dicts to seal, each with the end of its range
        self._changing = threading.Lock()  # of the tuple of full dicts
        self._sealing = threading.Lock()

    @property
    def sealed(self) -> int:
        """The offset below which ids are in runs."""
        return self._runs.end

    @property
    def filed(self) -> int:
        """The offset below which ids are in files: they need not be read from the log at a start."""
        return self._runs.sealed

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of runs, and of ids that are in none yet."""
        return len(self._runs.runs), len(self._tail) + sum(len(full) for _, full in self._full)

    def digest(self, tenant: str, source: str, id: str) -> int:
        """A digest of an event's names that no two tenants share; an int64."""
        hashed = self._keyed.copy()  # has read the key already
        hashed.update(f"{len(tenant)} {len(source)} {tenant}{source}{id}".encode())
        return int.from_bytes(hashed.digest(), "little", signed=True)

    def look_up(self, digests: Sequence[int]) -> dict[int, list[int]]:
        """The offsets at which some of these digests stand, oldest first. Costs a look at a bitmap per sealed run."""
        found: dict[int, list[int]] = {}
        needles = np.array(digests, np.int64)
        floor = self._runs.floor
        unsealed = [*(full for _, full in self._full), self._tail]  # before the runs: a dict goes when its run is there
        for run in self._runs.runs:
            for place in run.among(needles).tolist():
                digest = digests[place]
                found.setdefault(digest, []).extend(run.find(digest, floor - 1).tolist())
        for known in unsealed:
            for digest in digests:
                if known.get(digest, -1) >= floor:
                    found.setdefault(digest, []).append(known[digest])
        return found

    def verified(self, offsets: Iterable[int], source: str, id: str) -> int | None:
        """The first of these offsets whose event has this source and id.

        Offsets that are not sealed need no look at the log.
        """
        for offset in offsets:
            if offset >= self._runs.end:
                return offset
            try:
                event = read_names(self._reader.pick([offset])[0][3])
            except BelowFloor:  # truncated since the look-up
                continue
            if (event.source, event.id) == (source, id):
                return offset
        return None

    def remember(self, placed: Mapping[int, int]) -> None:
        """Note the offset of each of these digests."""
        self._tail.update(placed)

    def advance(self, end: int) -> bool:
        """Note that all entries below `end` are remembered. Return whether it is time to call `seal`."""
        self._end = end
        if len(self._tail) >= SEAL_EVENTS:
            self.put_aside(end)
        return bool(self._full)

    def put_aside(self, end: int) -> None:
        """Start a new dict. All entries below `end` are remembered; they stay in the full one until they are sealed."""
        with self._changing:
            self._full = (*self._full, (end, self._tail))
        self._tail = {}

    def seal(self, durable: int) -> None:
        """Move full dicts of entries that are on disk into runs. Call it from a background thread."""
        with self._sealing:
            while self._full and self._full[0][0] <= durable:
                end, digests = self._full[0]
                keys, offsets = np.array(list(digests), np.int64), np.array(list(digests.values()), np.int64)
                self._runs.add(end, keys, offsets)
                with self._changing:
                    self._full = self._full[1:]
            self._runs.merge()

    def flush(self) -> None:
        """Write the runs that are in memory to a file."""
        self._runs.flush()

    def truncate(self, floor: int) -> None:
        """Forget the events below `floor`, where the log starts now. They must be in files."""
        self._runs.truncate(floor)

    def close(self) -> None:
        """Seal everything; all entries must be on disk."""
        self.put_aside(self._end)
        self.seal(self._end)
        self._runs.flush()
