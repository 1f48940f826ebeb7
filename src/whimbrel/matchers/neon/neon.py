"""Neon: a table of predicates that are all evaluated, in compiled loops on frozen arrays.

Le Subscribe, figure 8. The predicates are indexed by event type, attribute and comparison. Comparisons of two
attributes are rows like all others, as in the product that the paper describes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.matchers.neon.predicate_tables import ANY_TYPE, evaluate, neon_tables
from whimbrel.matchers.neon.recent_table import RecentTable
from whimbrel.matchers.shared.base import Stats
from whimbrel.matchers.shared.capabilities import Capabilities
from whimbrel.matchers.shared.conjunction_rows import ConjunctionRows
from whimbrel.matchers.shared.event_ranks import EventGrid
from whimbrel.matchers.shared.frozen import CountingMatcher
from whimbrel.matchers.shared.option_checks import check_names
from whimbrel.matchers.shared.papers import Paper
from whimbrel.matchers.shared.runs import bytes_of


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
