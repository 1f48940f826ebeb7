"""The nested-loop join: every event against every subscription, as one writes it first.

Bias. Written better than most would: conditions are typed columns or slots (`values.py`), not text that is evaluated,
and the subscriptions are broadcast, so that nothing is shuffled. Reading the filters is not timed.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.pipeline.values import side
from whimbrel.lab.measure.matching.flat_filters import read_filters
from whimbrel.lab.measure.pipeline.spark_rival import SparkRival


class NestedLoopJoin(SparkRival):
    """All subscriptions in one table."""

    name = "nested-loop join"

    def load(self, subscriptions: pa.Table, sample: pa.Table, folder: Path) -> None:
        filters = read_filters(subscriptions["filter"])
        rest = side(filters, np.arange(len(filters)))
        raw = self.table("everyone", {"id": subscriptions["id"].combine_chunks(), **rest.columns}, folder)
        self.view("everyone", f"SELECT * FROM {raw}")
        self._query = (
            f"SELECT /*+ BROADCAST(s) */ e.event_id, s.id AS subscription FROM "
            f"({rest.events}) e JOIN everyone s ON {rest.condition}"
        )

    def query(self, events: str) -> str:
        return self._query.format(events=events)
