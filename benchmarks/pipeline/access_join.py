"""The best access-predicate join: subscriptions keyed by their best predicate, the rest checked in the join.

Bias. This is what an expert would write who knows the papers, and more than most do. The reading of filters, the choice
of keys by a sample of events and the layout are made outside of Spark and not timed; so is writing the keyed
subscriptions, which Spark then holds in memory. Timed are reading events, making their keys, the broadcast (Spark makes
it anew for every query) and the join. A shuffle join was slower on every workload: the rows that travel are events,
once for each of their keys. What has no key is a nested-loop join of its own.
"""

from pathlib import Path

import pyarrow as pa

from benchmarks.pipeline.access import access_of
from benchmarks.pipeline.values import side
from whimbrel.lab.measure.matching.flat_filters import read_filters
from whimbrel.lab.measure.pipeline.spark_rival import SparkRival


class AccessJoin(SparkRival):
    """Keyed subscriptions in `keyed`, those without a key in `scanned`."""

    name = "access-predicate join"

    def load(self, subscriptions: pa.Table, sample: pa.Table, folder: Path) -> None:
        filters = read_filters(subscriptions["filter"])
        access = access_of(filters, sample)
        ids = subscriptions["id"].combine_chunks()
        self._queries = []
        if len(access.owner):
            rest = side(filters, access.owner)
            keys = {"place": pa.array(access.place), "value": pa.array(access.value), "text": access.texts(filters)}
            raw = self.table("keyed", {"id": ids.take(pa.array(access.owner)), **keys, **rest.columns}, folder)
            key = "IF(text IS NULL, xxhash64(place, value), xxhash64(place, text)) AS key"
            self.view("keyed", f"SELECT {key}, {', '.join(['id', *rest.columns])} FROM {raw}")
            probes = f"SELECT *, explode({access.probes(filters)}) AS key FROM ({rest.events})"
            self._queries.append(
                f"SELECT /*+ BROADCAST(s) */ e.event_id, s.id AS subscription FROM ({probes}) e JOIN keyed s "
                f"ON e.key = s.key AND {rest.condition}"
            )
        if len(access.scanned):
            rest = side(filters, access.scanned)
            raw = self.table("scanned", {"id": ids.take(pa.array(access.scanned)), **rest.columns}, folder)
            self.view("scanned", f"SELECT * FROM {raw}")
            self._queries.append(
                f"SELECT /*+ BROADCAST(s) */ e.event_id, s.id AS subscription FROM "
                f"({rest.events}) e JOIN scanned s ON {rest.condition}"
            )

    def query(self, events: str) -> str:
        return " UNION ALL ".join(query.format(events=events) for query in self._queries)
