"""Neon: a table of predicates that are all evaluated. Numba on frozen arrays, and the same match as SQL tables.

Le Subscribe, figure 8. The predicates are indexed by event type, attribute and comparison. Comparisons of two
attributes are rows like all others, as in the product that the paper describes.

The SQL query names tables and columns only. `kind` and `value` are types and ranks, which makes it exact for integers
of any size, strings and timestamps alike. A comparison of two attributes has the value -1, 0 or 1 in an event and is a
comparison with 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.matchers.neon.predicate_tables import ANY_TYPE, COMPARISONS, evaluate, neon_tables
from whimbrel.matchers.neon.recent_table import RecentTable
from whimbrel.matchers.shared.base import Stats
from whimbrel.matchers.shared.capabilities import Capabilities
from whimbrel.matchers.shared.conjunction_rows import ConjunctionRows
from whimbrel.matchers.shared.event_ranks import EventGrid
from whimbrel.matchers.shared.frozen import CountingMatcher
from whimbrel.matchers.shared.option_checks import check_names
from whimbrel.matchers.shared.papers import Paper
from whimbrel.matchers.shared.runs import bytes_of
from whimbrel.model.subscription import Id
from whimbrel.model.values import NUMBER

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


class Neon(CountingMatcher):
    """Evaluates every predicate on the event's attributes, and counts those that hold per conjunction.

    An operation is an event type, an attribute and a comparison; each predicate of each conjunction is one row below
    its operation. Every row of the event's type and attributes is evaluated, without use of an order among constants.
    Then the counts of the conjunctions that were reached are compared. Cost: the predicates on the event's attributes.

    `event_type` names the attribute that holds the type of an event. A conjunction that wants one type is only in the
    tables of that type; one that does not is in those of all types.

    Predicates on one attribute are counted one by one, which is right only as long as it has one value (AMB-10d):
    events with lists are refused, and so are IN and OR on one attribute, which are no conjunction of comparisons.

    >>> from whimbrel.matchers import make
    >>> neon = make("neon", count=True)
    >>> neon.add("mid", "price > 10 AND price < limit AND event_type = 'sale'")
    >>> neon.match({"price": 15, "limit": 20, "event_type": "sale"}), neon.match({"price": 15, "event_type": "gift"})
    (['mid'], [])
    >>> neon.stats()["operations"], neon.stats()["predicate_evaluations"]
    (2, 2)
    """

    name = "neon"
    paper = Paper.LE_SUBSCRIBE
    section = "Figure 8"
    capabilities = Capabilities(
        unions=False, patterns=False, nonmembers=False, states=False, lists=False, elements=False
    )
    counted = ("operations_used", "predicate_evaluations", "additions", "comparisons")

    def __init__(self, timestamps: Iterable[str] = (), count: bool = False, event_type: str = "event_type") -> None:
        """Empty. `event_type`: the attribute whose equalities say in which tables a subscription is."""
        (self._type_name,) = check_names(self.name, "event_type", [event_type])
        super().__init__(timestamps, count)

    def _new_recent(self) -> RecentTable:
        return RecentTable(self._type_name)

    def _build(self, rows: ConjunctionRows) -> None:
        self._type_attr = rows.dictionary.sources.get(self._type_name, -1)
        self._tables = neon_tables(rows, self._type_attr)
        self._satisfied = np.zeros(len(rows), dtype=np.int32)
        self._reached = np.zeros(len(rows), dtype=np.int32)

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        counts = self._satisfied, self._reached
        return evaluate(block.first, event, self._type_attr, self._tables, *counts, out, ends, self._counters)

    def _sizes(self) -> Stats:
        return {
            "operations": len(self._tables.attr),
            "event_types": len(self._tables.types) - 1,
            "predicates_stored": len(self._tables.value),
            "bytes": bytes_of(self._tables, self._satisfied),
        }

    def relational_form(self) -> RelationalForm:
        """The match as SQL over tables, with the tables of everything that is stored now (all but `events`)."""
        import pyarrow as pa

        self.freeze()
        links, tables = self._linked(), self._tables
        name, other = self._attribute_names()
        operations = pa.table(
            {
                "event_type": pa.array(np.repeat(tables.types, np.diff(tables.type_start))),
                "attribute": pa.array(name[tables.attr], pa.string()),
                "other": pa.array(other[tables.attr], pa.string()),
                "comparison": pa.array([COMPARISONS[number] for number in tables.comparison], pa.string()),
            }
        )
        predicates = operations.take(pa.array(np.repeat(np.arange(len(tables.attr)), np.diff(tables.start))))
        for column, values in (("sub_id", tables.sub), ("kind", tables.kind), ("value", tables.value)):
            predicates = predicates.append_column(column, pa.array(values))
        subs = np.arange(len(tables.needed))
        kind = pa.string() if self._kind == "string" else pa.int64()
        return RelationalForm(
            QUERY,
            operations,
            predicates,
            pa.table({"sub_id": pa.array(subs, pa.int32()), "predicates": pa.array(tables.needed, pa.int64())}),
            pa.table(
                {
                    "sub_id": pa.array(np.repeat(subs, np.diff(links.start)), pa.int32()),
                    "subscription": pa.array(self.ids(links.places), kind),
                }
            ),
            tuple(self.ids(sorted(self._always))),
        )

    def relational_events(self, events: object) -> pa.Table:
        """Events as the rows that the query reads: event_id (row number), event_type, attribute, other, kind, value."""
        import pyarrow as pa

        nothing = np.zeros(0, dtype=np.int64)
        columns = [(nothing, nothing, nothing, nothing)]
        seen = 0
        for block in self._blocks(events):
            row, attr = np.nonzero(block.first >= 0)
            type_of = block.first[row, self._type_attr] if self._type_attr >= 0 else np.full(len(row), ANY_TYPE)
            columns.append((row + seen, attr, block.first[row, attr].astype(np.int64), type_of.astype(np.int64)))
            seen += len(block.first)
        row, attr, value, type_of = map(np.concatenate, zip(*columns, strict=True))
        first = self._tables.first_rank
        kind = (first[attr, 1:4] <= value[:, None]).sum(axis=1)
        pairs = self._tables.is_pair[attr]
        codes = (value[pairs] - first[attr[pairs], NUMBER]) >> 1
        kind[pairs], value[pairs] = codes > 2, np.where(codes > 2, 4 - codes, codes - 1)
        name, other = self._attribute_names()
        return pa.table(
            {
                "event_id": pa.array(row, pa.int64()),
                "event_type": pa.array(type_of, pa.int32()),
                "attribute": pa.array(name[attr], pa.string()),
                "other": pa.array(other[attr], pa.string()),
                "kind": pa.array(kind, pa.int8()),
                "value": pa.array(value, pa.int32()),
            }
        )

    def _attribute_names(self) -> tuple[np.ndarray, np.ndarray]:
        """The name of each attribute, and the second one of those that say how two compare, '' of all others."""
        name = np.array(self._dictionary.names, dtype=object)
        other = np.full(len(name), "", dtype=object)
        for attr, _, right in self._dictionary.meta.links:
            other[attr] = name[right]
        return name, other

    def _check_structure(self) -> None:
        tables = self._tables
        assert np.all(np.diff(tables.start) > 0)
        assert tables.types[0] == ANY_TYPE and np.all(np.diff(tables.types) > 0)
        assert len(tables.type_start) == len(tables.types) + 1
        types = np.repeat(tables.types, np.diff(tables.type_start))
        operations = list(zip(types.tolist(), tables.attr.tolist(), tables.comparison.tolist(), strict=True))
        assert operations == sorted(set(operations))
        assert np.array_equal(np.bincount(tables.sub, minlength=len(tables.needed)), tables.needed)
        assert not self._satisfied.any(), "a count was not reset"
        limit = np.repeat(tables.first_rank[tables.attr, 4], np.diff(tables.start))
        assert np.all((tables.value >= 0) & (tables.value < limit))
