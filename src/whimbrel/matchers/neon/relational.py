"""Neon's tables: one row per predicate of each conjunction, and the query that matches by join and count.

Le Subscribe, Figure 8. The query names tables and columns only, so that any SQL engine runs it: events are rows of
(event_id, attribute, kind, value), and `kind` and `value` are types and ranks, which makes it exact
for integers of any size, strings and timestamps alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whimbrel.matchers.conjunction_rows import ATTR, EQUAL, HIGH, KIND, LOW, POINTS, RANGE, ConjunctionRows
from whimbrel.matchers.runs import Int64s, offsets
from whimbrel.model.subscription import Id

if TYPE_CHECKING:
    import pyarrow as pa

COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
ANY_KIND = -1
"""The kind of a comparison of ranks across types."""

QUERY = """\
SELECT DISTINCT m.event_id, h.subscription
FROM (
  SELECT e.event_id, p.sub_id
  FROM events AS e
  JOIN predicates AS p
    ON p.attribute = e.attribute
   AND CASE
         WHEN p.comparison = '=' THEN e.value = p.value
         WHEN p.comparison = '!=' THEN e.value <> p.value
         WHEN p.kind >= 0 AND p.kind <> e.kind THEN FALSE
         WHEN p.comparison = '<' THEN e.value < p.value
         WHEN p.comparison = '<=' THEN e.value <= p.value
         WHEN p.comparison = '>' THEN e.value > p.value
         ELSE e.value >= p.value
       END
  JOIN n_predicates AS n ON n.sub_id = p.sub_id
  GROUP BY e.event_id, p.sub_id, n.predicates
  HAVING COUNT(*) = n.predicates
) AS m
JOIN holders AS h ON h.sub_id = m.sub_id"""


@dataclass(frozen=True, slots=True)
class RelationalForm:
    """The query and the tables it reads, all but `events`; `always` are the subscriptions without a predicate."""

    query: str
    predicates: pa.Table  # sub_id, attribute, comparison, kind, value
    n_predicates: pa.Table  # sub_id, predicates
    holders: pa.Table  # sub_id, subscription
    always: tuple[Id, ...]


def predicate_rows(rows: ConjunctionRows) -> tuple[Int64s, Int64s]:
    """(attribute, comparison, kind, value) of each predicate as a matrix, and the row that it belongs to."""
    items, row = rows.items.astype(np.int64), rows.item_rows()
    first = rows.dictionary.rank_base.astype(np.int64)[items[:, ATTR]]
    parts: list[tuple[Int64s, Int64s]] = []

    def put(chosen: Int64s, comparison: Int64s | int, kind: Int64s, value: Int64s) -> None:
        attribute = items[chosen, ATTR]
        columns = np.broadcast_arrays(attribute, np.asarray(comparison), kind, value)
        parts.append((np.stack(columns, 1).astype(np.int64), row[chosen]))

    equal = np.flatnonzero(items[:, KIND] == EQUAL)
    put(equal, 0, _kinds(first[equal], items[equal, LOW]), items[equal, LOW])
    sets = np.flatnonzero(items[:, KIND] >= POINTS)
    holder, excluded = _excluded(rows, items[sets, LOW], first[sets])
    others = sets[holder]
    put(others, 1, _kinds(first[others], excluded), excluded)
    ranges = np.flatnonzero(items[:, KIND] == RANGE)
    low, high = items[ranges, LOW], items[ranges, HIGH]
    below, above = _kinds(first[ranges], low), _kinds(first[ranges], high)
    kind = np.where(below == above, below, ANY_KIND)
    each = np.arange(len(ranges))
    bottom, top = first[ranges][each, below], first[ranges][each, above + 1] - 1
    has_upper = high < np.where(kind == ANY_KIND, first[ranges, 4] - 1, top)
    has_lower = (low > np.where(kind == ANY_KIND, first[ranges, 0], bottom)) | ~has_upper
    is_constant = (high - first[ranges][each, above]) % 2 == 1
    upper = np.where(is_constant, high, high + 1)
    put(ranges[has_upper], np.where(is_constant, 3, 2)[has_upper], kind[has_upper], upper[has_upper])
    inclusive = ((low - bottom) % 2 == 1) | (low == bottom)
    lower = np.where(inclusive, low, low - 1)
    put(ranges[has_lower], np.where(inclusive, 5, 4)[has_lower], kind[has_lower], lower[has_lower])
    return np.concatenate([cells for cells, _ in parts]), np.concatenate([owner for _, owner in parts])


def _excluded(rows: ConjunctionRows, sets: Int64s, first: Int64s) -> tuple[Int64s, Int64s]:
    """The ranks that lie outside of sets, with the place of their set: few, as only exclusions are sets here."""
    start, length = rows.set_start[sets], np.diff(rows.set_start)[sets]
    place = np.repeat(np.arange(len(sets)), length + 1)  # between and around n intervals lie n + 1 gaps
    gap = np.arange(len(place)) - np.repeat(offsets(length + 1)[:-1], length + 1)
    at = start[place] + gap
    low, high = first[place, 0].copy(), first[place, 4] - 1
    inner, outer = gap > 0, gap < length[place]
    low[inner] = rows.set_high[at[inner] - 1] + 1
    high[outer] = rows.set_low[at[outer]] - 1
    sizes = np.maximum(high - low + 1, 0)
    within = np.arange(sizes.sum()) - np.repeat(offsets(sizes)[:-1], sizes)
    return np.repeat(place, sizes), np.repeat(low, sizes) + within


def _kinds(first: Int64s, rank: Int64s) -> Int64s:
    """The type whose block holds each rank."""
    kinds: Int64s = (first[:, 1:4] <= rank[:, None]).sum(axis=1)
    return kinds
