"""DuckDB: events joined with subscriptions in SQL, one thread.

Bias. The query is the best form that was found, and better than what most would write: DuckDB is spared the work of
finding keys, which NumPy does for it (`access_keys.py`), so that candidates come from one hash join and not from
comparing everything with everything; values are numbers; what remains is checked from columns (where attributes are
few) or by place in a list of the event's values (where a plain table would have hundreds of columns, most of them
empty: with 8,000 mixed subscriptions that took 10,000 us an event, and lists take 115). Making keys and lists of events
is part of its time; reading filters and filing them is load time. It is given as many events at once as it can use,
because each query reads all subscriptions: single events would be far slower. Pairs are fetched as Arrow batches and
dropped.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from benchmarks.access_keys import AccessKeys, Slots, access_keys, slots_of
from whimbrel.lab.measure.matching.cases import MatchCase
from whimbrel.lab.measure.matching.flat_filters import FlatFilters, read_filters
from whimbrel.lab.measure.matching.rival import CannotTakePart, Pairs, Rival

EVENTS = 16_384
"""Events of a query at most."""
FEW_COLUMNS = 2
"""Attributes get columns of their own if there are at most this many times as many of them as slots."""


def rivals(case: MatchCase) -> list[Rival]:
    """The one join."""
    return [DuckdbJoin()]


class DuckdbJoin(Rival):
    """A database in memory with the filed filters as tables `keyed` and `scanned`."""

    name = "DuckDB join"
    group = "duckdb"

    def load(self, subscriptions: pa.Table) -> None:
        try:
            import duckdb
        except ImportError:
            raise CannotTakePart("duckdb is not installed: it comes with the extra lab") from None
        self._ids = subscriptions["id"].to_numpy()
        self._filters: FlatFilters = read_filters(subscriptions["filter"])
        self._keys: AccessKeys = access_keys(self._filters)
        self._database = duckdb.connect()
        self._database.execute("SET threads = 1")
        self._queries = []
        if len(self._keys.key):
            rest = self._table("keyed", self._keys.owner, key=self._keys.key)
            source = "probes JOIN keyed USING (key) JOIN events USING (event)"
            self._queries.append(f"SELECT event, owner FROM {source} WHERE {rest}")
        if len(self._keys.scanned):
            rest = self._table("scanned", self._keys.scanned)
            self._queries.append(f"SELECT event, owner FROM events, scanned WHERE {rest}")

    def pairs(self, events: pa.Table) -> Iterator[Pairs]:
        for first, batch in self._batches(events):
            yield batch["event"].to_numpy() + first, self._ids[batch["owner"].to_numpy()]

    def run(self, events: pa.Table) -> int:
        return sum(batch.num_rows for _, batch in self._batches(events))

    def _batches(self, events: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches of (event, owner), each with the number of the first event that its query was given."""
        for first in range(0, events.num_rows, EVENTS):
            self._prepare(events.slice(first, EVENTS))
            for query in self._queries:
                for batch in self._database.sql(query).to_arrow_reader():
                    yield first, batch

    def close(self) -> None:
        if hasattr(self, "_database"):
            self._database.close()

    def _prepare(self, events: pa.Table) -> None:
        """The tables `events` (values) and `probes` (keys) of some events."""
        values = self._filters.values(events)
        columns = {"event": np.arange(events.num_rows, dtype=np.int32)}
        columns |= {f"v{number}": values[number] for number in self._columns}
        lists = np.vstack([values, np.zeros((1, events.num_rows))]).T.ravel()
        offsets = np.arange(0, len(lists) + 1, len(values) + 1, dtype=np.int32)
        self._events = pa.table({**columns, "v": pa.ListArray.from_arrays(offsets, pa.array(lists))})
        self._database.register("events", self._events)
        key, event = self._keys.probes(values)
        self._probes = pa.table({"key": key, "event": event})
        self._database.register("probes", self._probes)

    def _table(self, name: str, owners: np.ndarray, **more: np.ndarray) -> str:
        """Makes the table of some filters; the condition that is left to check."""
        slots = slots_of(self._filters, self._keys.proven, owners)
        attributes = slots.attributes(len(self._filters.names))
        in_columns = len(attributes) <= FEW_COLUMNS * len(slots.ranges)
        if in_columns:
            slots = slots_of(self._filters, self._keys.proven, owners, attributes)
        self._columns = sorted({*getattr(self, "_columns", ()), *(attributes if in_columns else ())})
        columns, conditions = _columns(slots, attributes if in_columns else [])
        made = pa.table({"owner": owners.astype(np.int32), **more, **columns})
        self._database.register("made", made)
        self._database.execute(f"CREATE TABLE {name} AS SELECT * FROM made")
        self._database.unregister("made")
        return " AND ".join(conditions) or "TRUE"


def _columns(slots: Slots, aligned: list[int]) -> tuple[dict[str, np.ndarray], list[str]]:
    """The columns of slots, and their conditions; lists count from 1."""
    columns: dict[str, np.ndarray] = {}
    conditions = []
    for j, (attribute, low, high) in enumerate(slots.ranges):
        value = f"events.v{aligned[j]}" if aligned else f"events.v[a{j}]"
        columns |= {f"low{j}": low, f"high{j}": high} | ({} if aligned else {f"a{j}": attribute + 1})
        conditions.append(f"{value} BETWEEN low{j} AND high{j}")
    for j, (attribute, bits) in enumerate(slots.points):
        columns |= {f"p{j}": attribute + 1, f"bits{j}": bits}
        conditions.append(f"(bits{j} >> TRY_CAST(events.v[p{j}] AS UTINYINT)) & 1 = 1")
    return columns, conditions
