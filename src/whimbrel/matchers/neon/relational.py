"""Neon's match as SQL over tables of predicates and events: the query names tables and columns only.

`kind` and `value` are types and ranks, which makes it exact for integers of any size, strings and timestamps alike. A
comparison of two attributes has the value -1, 0 or 1 in an event and is a comparison with 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from whimbrel.model.subscription import Id

if TYPE_CHECKING:
    import pyarrow as pa

QUERY = """\
SELECT DISTINCT m.event_id, h.subscription
FROM (
  SELECT e.event_id, p.sub_id
  FROM events AS e
  JOIN predicates AS p
    ON p.event_type IN (-1, e.event_type)
   AND p.attribute = e.attribute
   AND p.other = e.other
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
    operations: pa.Table  # event_type, attribute, other, comparison: what the predicates are indexed by
    predicates: pa.Table  # sub_id, event_type, attribute, other, comparison, kind, value
    n_predicates: pa.Table  # sub_id, predicates
    holders: pa.Table  # sub_id, subscription
    always: tuple[Id, ...]
