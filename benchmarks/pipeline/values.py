"""The values of events and the conditions of filters as Spark SQL, for all rivals.

Attributes that are few get columns of their own, in their own types (wide). Where they are many, a filter tests a few
of a hundred, and a row with hundreds of columns costs more than the test: then an event is one array of numbers, and a
filter has slots that say which place to look at. A string becomes the number of its constant, in SQL, so making the
array is part of the time. An `IN` is a word of 64 bits.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.access_keys import slots_of
from whimbrel.lab.measure.matching.flat_filters import HIGHEST, LOWEST, POINTS, FlatFilters

WIDE_MOST = 16
"""Attributes that get columns of their own, at most."""


@dataclass(frozen=True, slots=True)
class Side:
    """What the join needs: columns of subscriptions `s`, the query that gives events `e`, and the condition."""

    columns: dict[str, pa.Array]
    events: str
    condition: str


def is_wide(filters: FlatFilters) -> bool:
    """Whether attributes get columns of their own."""
    return len(filters.names) <= WIDE_MOST and not (filters.kind == POINTS).any()


def side(filters: FlatFilters, owners: np.ndarray) -> Side:
    """The columns of these filters, a row for each of `owners`, which may repeat."""
    return _wide(filters, owners) if is_wide(filters) else _slots(filters, owners)


def number(filters: FlatFilters, name: str) -> str:
    """The value of an attribute as a double; null if it is missing, and -1 for a string that no filter has."""
    if name not in filters.constants:
        return f"CAST({name} AS double)"
    known = ", ".join(f"'{text}'" for text in filters.constants[name].to_pylist())
    return f"CAST(array_position(array({known}), {name}) - 1 AS double)"


def all_numbers(filters: FlatFilters) -> str:
    """All values of an event as one array."""
    return f"array({', '.join(number(filters, name) for name in filters.names)})"


def _wide(filters: FlatFilters, owners: np.ndarray) -> Side:
    columns: dict[str, pa.Array] = {}
    conditions = []
    for attribute, name in enumerate(filters.names):
        item = np.flatnonzero(filters.attribute == attribute)
        at = np.full(len(filters), -1)
        at[filters.owner[item]] = item
        place = at[owners]
        untested = place < 0
        if name in filters.constants:
            code = pa.array(np.where(untested, 0, filters.low[place]).astype(np.int64), mask=untested)
            columns[f"is_{name}"] = pc.take(filters.constants[name], code)
            conditions.append(f"(s.is_{name} IS NULL OR s.is_{name} = e.{name})")
            continue
        low, high = np.clip(filters.low[place], -(2**62), 2**62), np.clip(filters.high[place], -(2**62), 2**62)
        columns[f"from_{name}"] = pa.array(np.ceil(low).astype(np.int64), mask=untested)
        columns[f"to_{name}"] = pa.array(np.floor(high).astype(np.int64), mask=untested)
        conditions.append(f"(s.from_{name} IS NULL OR e.{name} BETWEEN s.from_{name} AND s.to_{name})")
    return Side(columns, f"SELECT event_id, {', '.join(filters.names)} FROM {{events}}", " AND ".join(conditions))


def _slots(filters: FlatFilters, owners: np.ndarray) -> Side:
    slots = slots_of(filters, np.zeros(len(filters.kind), bool), owners)
    columns: dict[str, pa.Array] = {}
    conditions = []
    for j, (attribute, low, high) in enumerate(slots.ranges):
        ends = np.clip(low, LOWEST, HIGHEST), np.clip(high, LOWEST, HIGHEST)
        columns |= {f"a{j}": pa.array(attribute), f"low{j}": pa.array(ends[0]), f"high{j}": pa.array(ends[1])}
        conditions.append(f"get(e.v, s.a{j}) BETWEEN s.low{j} AND s.high{j}")
    for j, (attribute, bits) in enumerate(slots.points):
        columns |= {f"p{j}": pa.array(attribute), f"bits{j}": pa.array(bits.view(np.int64))}
        value = f"get(e.v, s.p{j})"
        conditions.append(f"{value} >= 0 AND (shiftrightunsigned(s.bits{j}, CAST({value} AS int)) & 1) = 1")
    # Free slots look at the last place. A generator makes the array once, however often it is used.
    values = f"explode(array(concat({all_numbers(filters)}, array(0D)))) AS v"
    return Side(columns, f"SELECT event_id, {values} FROM {{events}}", " AND ".join(conditions) or "TRUE")
