"""Counting in SQL: predicates joined with the values of events, and groups that have all of their predicates.

Bias. The relational form of the counting algorithm, with equalities and intervals in tables of their own so that
equalities are hash joins; both tables are broadcast. Reading the filters is not timed.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.pipeline.values import all_numbers
from whimbrel.lab.measure.matching.flat_filters import HIGHEST, LOWEST, POINTS, read_filters
from whimbrel.lab.measure.pipeline.spark_rival import SparkRival


class CountingJoin(SparkRival):
    """Predicates in `equalities` and `intervals`; `sizes` says how many each subscription has."""

    name = "counting"

    def load(self, subscriptions: pa.Table, sample: pa.Table, folder: Path) -> None:
        filters = read_filters(subscriptions["filter"])
        ids = subscriptions["id"].combine_chunks()
        single = (filters.kind != POINTS) & (filters.low == filters.high)
        ones, lists = np.flatnonzero(single), np.flatnonzero(filters.kind == POINTS)
        ranged = np.flatnonzero((filters.kind != POINTS) & ~single)
        sizes = (filters.high[lists] - filters.low[lists]).astype(np.int64)
        item = np.concatenate([ones, np.repeat(lists, sizes)])
        equal = {
            "id": ids.take(pa.array(filters.owner[item])),
            "attribute": pa.array(filters.attribute[item].astype(np.int32)),
            "value": pa.array(np.concatenate([filters.low[ones], filters.members(lists)])),
        }
        between = {
            "id": ids.take(pa.array(filters.owner[ranged])),
            "attribute": pa.array(filters.attribute[ranged].astype(np.int32)),
            "low": pa.array(np.clip(filters.low[ranged], LOWEST, HIGHEST)),
            "high": pa.array(np.clip(filters.high[ranged], LOWEST, HIGHEST)),
        }
        counts = {"id": ids, "size": pa.array(np.diff(filters.start))}
        for view, columns in (("equalities", equal), ("intervals", between), ("sizes", counts)):
            self.view(view, f"SELECT * FROM {self.table('raw_' + view, columns, folder)}")
        self._values = all_numbers(filters)

    def query(self, events: str) -> str:
        values = (
            f"SELECT event_id, attribute, value FROM {events} "
            f"LATERAL VIEW posexplode({self._values}) AS attribute, value WHERE value IS NOT NULL"
        )
        on = "v.attribute = p.attribute AND v.value"
        hits = (
            f"SELECT /*+ BROADCAST(p) */ v.event_id, p.id FROM v JOIN equalities p ON {on} = p.value UNION ALL "
            f"SELECT /*+ BROADCAST(p) */ v.event_id, p.id FROM v JOIN intervals p ON {on} BETWEEN p.low AND p.high"
        )
        counted = f"SELECT event_id, id, count(*) AS size FROM ({hits}) GROUP BY event_id, id"
        return (
            f"WITH v AS ({values}), counted AS ({counted}) "
            "SELECT c.event_id, c.id AS subscription FROM counted c JOIN sizes s ON c.id = s.id AND c.size = s.size "
            f"UNION ALL SELECT e.event_id, s.id FROM {events} e JOIN sizes s ON s.size = 0"
        )
