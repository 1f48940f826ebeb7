"""Neon: a table of predicates that are all evaluated. Numba on frozen arrays, and the same match as SQL tables.

The query names tables and columns only, so that any SQL engine runs it: events are rows of (event_id, attribute, kind,
value), and `kind` and `value` are types and ranks, which makes it exact for integers of any size, strings and
timestamps alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.jit import kernel
from whimbrel.matchers.base import Stats
from whimbrel.matchers.capabilities import Capabilities
from whimbrel.matchers.conjunction_rows import ATTR, EQUAL, HIGH, KIND, LOW, POINTS, RANGE, ConjunctionRows, needed_sets
from whimbrel.matchers.event_grid import EventGrid
from whimbrel.matchers.papers import Paper
from whimbrel.matchers.recent_conjunctions import CountingMatcher
from whimbrel.matchers.runs import Int32s, Int64s, bytes_of, offsets
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import Event
from whimbrel.model.intervals import IntervalSet, edge
from whimbrel.model.subscription import Id

if TYPE_CHECKING:
    import pyarrow as pa

EQUALS, UNEQUAL, BELOW, AT_MOST, ABOVE, AT_LEAST = range(6)
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


class NeonTables(NamedTuple):
    """The predicates, operation after operation: those of operation o are from start[o] to start[o + 1]."""

    attr: Int32s  # of each operation
    comparison: Int32s  # of each operation
    start: Int64s
    kind: npt.NDArray[np.int8]  # of each predicate
    value: Int32s  # of each predicate
    sub: Int32s  # of each predicate, the row of its conjunction
    needed: Int32s  # how many predicates each row has


class RecentTable:
    """The table of predicates as it can change: the rows of each operation, an attribute and a comparison."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], dict[tuple[int, IntervalSet], None]] = {}
        self._needed: dict[int, int] = {}

    def insert(self, number: int, conjunction: Conjunction) -> None:
        """Add the rows of a conjunction. O(its predicates)."""
        rows = list(_comparisons(conjunction))
        for operation, values in rows:
            self._rows.setdefault(operation, {})[number, values] = None
        self._needed[number] = len(rows)

    def delete(self, number: int, conjunction: Conjunction) -> None:
        """Remove the rows of a conjunction."""
        for operation, values in _comparisons(conjunction):
            del self._rows[operation][number, values]
            if not self._rows[operation]:
                del self._rows[operation]
        del self._needed[number]

    def search(self, event: Event, work: Counter[str]) -> list[int]:
        """Evaluate every row of the event's attributes, and compare the counts that were reached."""
        counts: Counter[int] = Counter()
        for (name, _), rows in self._rows.items():
            keys = [key for key in event.keys(name) if key[0] >= 0]
            if keys:
                work["operations_used"] += 1
                work["predicate_evaluations"] += len(rows)
                counts.update(number for number, values in rows if keys[0] in values)
        work["additions"] += counts.total()
        work["comparisons"] += len(counts)
        return [number for number, count in counts.items() if count == self._needed[number]]

    def contents(self) -> tuple[object, ...]:
        """All that is stored, to compare."""
        return self._rows, self._needed


def _comparisons(conjunction: Conjunction) -> Iterator[tuple[tuple[str, str], IntervalSet]]:
    """The predicates of a conjunction, each with its operation and the values that satisfy it."""
    for name, constraint in conjunction.constraints:
        for values in needed_sets(constraint):
            others = values.complement().as_points()
            if values.as_points() is not None:
                yield (name, "="), values
            elif others is not None:
                for key in others:
                    yield (name, "!="), IntervalSet.points([key]).complement()
            else:
                low, high = values.cuts
                first, last = edge(low[0]), edge(low[0] + 1)
                if high != last:
                    yield (name, "<=" if high[3] else "<"), IntervalSet((first, high))
                if low != first or high == last:
                    yield (name, ">" if low[3] else ">="), IntervalSet((low, last))


class Neon(CountingMatcher):
    """Evaluates every predicate on the event's attributes, and counts those that hold per conjunction.

    An operation is a pair of attribute and comparison; each predicate of each conjunction is one row below its
    operation. Every row of the event's attributes is evaluated, without use of an order among constants. Then the
    counts of the conjunctions that were reached are compared. Cost: the predicates on the event's attributes.

    Predicates on one attribute are counted one by one, which is right only as long as it has one value (AMB-10d):
    events with lists are refused, and so are IN and OR on one attribute, which are no conjunction of comparisons.

    >>> from whimbrel.matchers import make
    >>> neon = make("neon", count=True)
    >>> neon.add("mid", "price > 10 AND price < 20 AND color != 'red'")
    >>> neon.match({"price": 15, "color": "blue"})
    ['mid']
    >>> neon.stats()["operations"], neon.stats()["predicate_evaluations"]
    (3, 3)
    """

    name = "neon"
    paper = Paper.LE_SUBSCRIBE
    section = "Figure 8"
    capabilities = Capabilities(
        unions=False, patterns=False, nonmembers=False, states=False, links=False, lists=False, elements=False
    )
    counted = ("operations_used", "predicate_evaluations", "additions", "comparisons")

    def _new_recent(self) -> RecentTable:
        return RecentTable()

    def _build(self, rows: ConjunctionRows) -> None:
        cells, owner = _predicate_rows(rows)
        order = np.lexsort((owner, cells[:, 1], cells[:, 0]))
        cells, owner = cells[order], owner[order]
        operations, first = np.unique(cells[:, 0] * len(COMPARISONS) + cells[:, 1], return_index=True)
        attr, comparison = (part.astype(np.int32) for part in divmod(operations, len(COMPARISONS)))
        self._tables = NeonTables(
            attr,
            comparison,
            np.append(first, len(cells)).astype(np.int64),
            np.ascontiguousarray(cells[:, 2].astype(np.int8)),
            np.ascontiguousarray(cells[:, 3].astype(np.int32)),
            owner.astype(np.int32),
            np.bincount(owner, minlength=len(rows)).astype(np.int32),
        )
        self._satisfied = np.zeros(len(rows), dtype=np.int32)
        self._reached = np.zeros(len(rows), dtype=np.int32)
        self._first = rows.dictionary.rank_base

    def _run(self, block: EventGrid, event: int, out: Int32s, ends: Int64s) -> int:
        counts = self._satisfied, self._reached
        return _evaluate(block.first, event, self._first, self._tables, *counts, out, ends, self._counters)

    def _sizes(self) -> Stats:
        return {
            "operations": len(self._tables.attr),
            "predicates_stored": len(self._tables.value),
            "bytes": bytes_of(self._tables, self._satisfied),
        }

    def relational_form(self) -> RelationalForm:
        """The match as SQL over tables, with the tables of everything that is stored now (all but `events`)."""
        import pyarrow as pa

        self.freeze()
        links, tables = self._linked(), self._tables
        names = np.array(self._dictionary.names, dtype=object)
        comparison = np.repeat(tables.comparison, np.diff(tables.start))
        subs = np.arange(len(tables.needed))
        kind = pa.string() if self._kind == "string" else pa.int64()
        return RelationalForm(
            QUERY,
            pa.table(
                {
                    "sub_id": pa.array(tables.sub),
                    "attribute": pa.array(names[np.repeat(tables.attr, np.diff(tables.start))], pa.string()),
                    "comparison": pa.array([COMPARISONS[number] for number in comparison], pa.string()),
                    "kind": pa.array(tables.kind),
                    "value": pa.array(tables.value),
                }
            ),
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
        """Events as the rows that the query reads: event_id (row number), attribute, kind, value."""
        import pyarrow as pa

        nothing = np.zeros(0, dtype=np.int64)
        columns = [(nothing, nothing, nothing)]
        seen = 0
        for block in self._blocks(events):
            row, attr = np.nonzero(block.first >= 0)
            columns.append((row + seen, attr, block.first[row, attr].astype(np.int64)))
            seen += len(block.first)
        row, attr, value = map(np.concatenate, zip(*columns, strict=True))
        kind = (self._first[attr, 1:4] <= value[:, None]).sum(axis=1)
        names = np.array(self._dictionary.names, dtype=object)
        return pa.table(
            {
                "event_id": pa.array(row, pa.int64()),
                "attribute": pa.array(names[attr], pa.string()),
                "kind": pa.array(kind, pa.int8()),
                "value": pa.array(value, pa.int32()),
            }
        )

    def _check_structure(self) -> None:
        tables = self._tables
        assert np.all(np.diff(tables.start) > 0)
        operations = list(zip(tables.attr.tolist(), tables.comparison.tolist(), strict=True))
        assert operations == sorted(set(operations))
        assert np.array_equal(np.bincount(tables.sub, minlength=len(tables.needed)), tables.needed)
        assert not self._satisfied.any(), "a count was not reset"
        limit = np.repeat(self._first[tables.attr, 4], np.diff(tables.start)) if operations else tables.value
        assert np.all((tables.value >= 0) & (tables.value < limit))


def _predicate_rows(rows: ConjunctionRows) -> tuple[Int64s, Int64s]:
    """(attribute, comparison, kind, value) of each predicate as a matrix, and the row that it belongs to."""
    items, row = rows.items.astype(np.int64), rows.item_rows()
    first = rows.dictionary.rank_base.astype(np.int64)[items[:, ATTR]]
    parts: list[tuple[Int64s, Int64s]] = []

    def put(chosen: Int64s, comparison: Int64s | int, kind: Int64s, value: Int64s) -> None:
        attribute = items[chosen, ATTR]
        columns = np.broadcast_arrays(attribute, np.asarray(comparison), kind, value)
        parts.append((np.stack(columns, 1).astype(np.int64), row[chosen]))

    equal = np.flatnonzero(items[:, KIND] == EQUAL)
    put(equal, EQUALS, _kinds(first[equal], items[equal, LOW]), items[equal, LOW])
    sets = np.flatnonzero(items[:, KIND] >= POINTS)
    holder, excluded = _excluded(rows, items[sets, LOW], first[sets])
    others = sets[holder]
    put(others, UNEQUAL, _kinds(first[others], excluded), excluded)
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
    put(ranges[has_upper], np.where(is_constant, AT_MOST, BELOW)[has_upper], kind[has_upper], upper[has_upper])
    inclusive = ((low - bottom) % 2 == 1) | (low == bottom)
    lower = np.where(inclusive, low, low - 1)
    put(ranges[has_lower], np.where(inclusive, AT_LEAST, ABOVE)[has_lower], kind[has_lower], lower[has_lower])
    return np.concatenate([cells for cells, _ in parts]), np.concatenate([owner for _, owner in parts])


def _excluded(rows: ConjunctionRows, sets: Int64s, first: Int64s) -> tuple[Int64s, Int64s]:
    """The ranks that lie outside of sets, with the place of their set: few, as only exclusions are sets here."""
    start, length = rows.sets.start[sets], np.diff(rows.sets.start)[sets]
    place = np.repeat(np.arange(len(sets)), length + 1)  # between and around n intervals lie n + 1 gaps
    gap = np.arange(len(place)) - np.repeat(offsets(length + 1)[:-1], length + 1)
    at = start[place] + gap
    low, high = first[place, 0].copy(), first[place, 4] - 1
    inner, outer = gap > 0, gap < length[place]
    low[inner] = rows.sets.high[at[inner] - 1] + 1
    high[outer] = rows.sets.low[at[outer]] - 1
    sizes = np.maximum(high - low + 1, 0)
    within = np.arange(sizes.sum()) - np.repeat(offsets(sizes)[:-1], sizes)
    return np.repeat(place, sizes), np.repeat(low, sizes) + within


def _kinds(first: Int64s, rank: Int64s) -> Int64s:
    """The type whose block holds each rank."""
    kinds: Int64s = (first[:, 1:4] <= rank[:, None]).sum(axis=1)
    return kinds


@kernel
def _evaluate(
    first: Int32s,
    event: int,
    first_rank: Int32s,
    tables: NeonTables,
    satisfied: Int32s,
    reached: Int32s,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
    attrs, comparisons, start, kind, value, sub, needed = tables
    found = 0
    while event < len(first) and found + satisfied.size <= out.size:
        count = 0
        for operation in range(attrs.size):
            attr, comparison = attrs[operation], comparisons[operation]
            rank = first[event, attr]
            if rank < 0:
                continue
            own = 0
            while rank >= first_rank[attr, own + 1]:
                own += 1
            additions = 0
            for row in range(start[operation], start[operation + 1]):
                if comparison == EQUALS:
                    holds = rank == value[row]
                elif comparison == UNEQUAL:
                    holds = rank != value[row]
                elif kind[row] != own and kind[row] != ANY_KIND:
                    holds = False
                elif comparison == BELOW:
                    holds = rank < value[row]
                elif comparison == AT_MOST:
                    holds = rank <= value[row]
                elif comparison == ABOVE:
                    holds = rank > value[row]
                else:
                    holds = rank >= value[row]
                if holds:
                    if satisfied[sub[row]] == 0:
                        reached[count] = sub[row]
                        count += 1
                    satisfied[sub[row]] += 1
                    additions += 1
            if counters is not None:
                counters[0] += 1
                counters[1] += start[operation + 1] - start[operation]
                counters[2] += additions
        for place in range(count):
            out[found] = reached[place]
            found += satisfied[reached[place]] == needed[reached[place]]
            satisfied[reached[place]] = 0
        if counters is not None:
            counters[3] += count
        ends[event] = found
        event += 1
    return event
