"""Polars: events joined with subscriptions by expressions on data frames, one thread.

Bias. As for DuckDB, this is the best form that was found, and no first attempt: keys come from NumPy
(`access_keys.py`), so that candidates come from one inner join; what remains is checked slot by slot, each a filter
that leaves fewer candidates to the next, with bounds and values gathered by place. `join_where` on wide frames was
tried and is slower. Making keys of events is part of its time; reading filters and filing them is load time. It is
given as many events at once as it can use, because each join reads all keys. Pairs are columns in memory and are
dropped.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.access_keys import AccessKeys, Slots, access_keys, slots_of
from whimbrel.lab.measure.matching.cases import MatchCase
from whimbrel.lab.measure.matching.flat_filters import FlatFilters, read_filters
from whimbrel.lab.measure.matching.rival import CannotTakePart, Pairs, Rival

if TYPE_CHECKING:
    import polars as pl

CANDIDATES = 8_000_000
"""Rows of an intermediate frame to aim at."""


def rivals(case: MatchCase) -> list[Rival]:
    """The one join."""
    return [PolarsJoin()]


class PolarsJoin(Rival):
    """Frames of keys, and the slots of the filters behind them as series."""

    name = "Polars join"
    group = "polars"

    def load(self, subscriptions: pa.Table) -> None:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")  # is read when polars is imported
        try:
            import polars as pl
        except ImportError:
            raise CannotTakePart("polars is not installed: it comes with the extra lab") from None
        self.cores = pl.thread_pool_size()  # more than one if it was imported before
        self._ids = subscriptions["id"].to_numpy()
        self._filters: FlatFilters = read_filters(subscriptions["filter"])
        self._keys: AccessKeys = access_keys(self._filters)
        keys = self._keys
        self._keyed = pl.DataFrame({"key": keys.key, "row": np.arange(len(keys.key), dtype=np.uint32)})
        self._scanned = pl.DataFrame({"row": np.arange(len(keys.scanned), dtype=np.uint32)})
        self._checks = _Checks(slots_of(self._filters, keys.proven, keys.owner), len(self._filters.names))
        self._scan_checks = _Checks(slots_of(self._filters, keys.proven, keys.scanned), len(self._filters.names))

    def pairs(self, events: pa.Table) -> Iterator[Pairs]:
        for frame, owners, first in self._frames(events):
            yield frame["event"].to_numpy() + first, self._ids[owners[frame["row"].to_numpy()]]

    def run(self, events: pa.Table) -> int:
        return sum(frame.height for frame, _, _ in self._frames(events))

    def _frames(self, events: pa.Table) -> Iterator[tuple["pl.DataFrame", np.ndarray, int]]:
        """Frames of (event, row) that match, with the owners of rows and the number of the first event."""
        import polars as pl

        first, count = 0, 512
        while first < events.num_rows:
            some = events.slice(first, count)
            values = self._filters.values(some)
            cells = pl.Series(np.vstack([values, np.zeros((1, some.num_rows))]).T.ravel())
            key, event = self._keys.probes(values)
            candidates = pl.DataFrame({"key": key, "event": event}).join(self._keyed, on="key").drop("key")
            most = candidates.height
            yield self._checks.apply(candidates, cells), self._keys.owner, first
            if self._scanned.height:
                step = max(1, CANDIDATES // self._scanned.height)
                for start in range(0, some.num_rows, step):
                    part = np.arange(start, min(start + step, some.num_rows), dtype=np.int32)
                    crossed = pl.DataFrame({"event": part}).join(self._scanned, how="cross")
                    yield self._scan_checks.apply(crossed, cells), self._keys.scanned, first
            first += some.num_rows
            count = max(1, min(4 * count, CANDIDATES * some.num_rows // max(1, most)))


class _Checks:
    """The slots of some filters as series, and the filters on candidates that they make."""

    def __init__(self, slots: Slots, attributes: int) -> None:
        import polars as pl

        self._width = attributes + 1
        self._ranges = [tuple(map(pl.Series, slot)) for slot in slots.ranges]
        self._points = [tuple(map(pl.Series, slot)) for slot in slots.points]
        self._powers = pl.Series(np.uint64(1) << np.arange(64, dtype=np.uint64))

    def apply(self, frame: "pl.DataFrame", cells: "pl.Series") -> "pl.DataFrame":
        """The candidates that pass every slot."""
        import polars as pl

        row, start = pl.col("row"), pl.col("event").cast(pl.UInt32) * self._width
        for attribute, low, high in self._ranges:
            value = pl.lit(cells).gather(start + pl.lit(attribute).gather(row))
            frame = frame.filter(value.is_between(pl.lit(low).gather(row), pl.lit(high).gather(row)))
        for attribute, bits in self._points:
            value = pl.lit(cells).gather(start + pl.lit(attribute).gather(row))
            power = pl.lit(self._powers).gather(value.clip(0, 63).cast(pl.UInt32))
            frame = frame.filter((value >= 0) & ((pl.lit(bits).gather(row) & power) != 0))
        return frame
