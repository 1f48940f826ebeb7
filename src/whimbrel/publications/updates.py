"""The columns of updates and of states, the order in which updates count, and the states after partial updates.

Columns are found by number, because attributes may have any name, also that of another column.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whimbrel.publications.arrow_columns import Flags, Rows, as_array, column_of, flags_of, row_numbers
from whimbrel.ranks.arrow import values_of

KEY, SEQUENCE, ALIVE, FIRST_OF_STATE = range(4)
"""The columns of states; those of attributes begin with the last number."""
DELETED, TIME, UNSET, FIRST_OF_UPDATE = range(2, 6)
"""The columns of updates after key and sequence; those of attributes begin with the last number."""


class Update(NamedTuple):
    """A change of one publication.

    `attributes` holds its values by name; `unset` names attributes to remove, for partial updates; `time` is in
    seconds, for dwell.
    """

    key: int | str
    attributes: Mapping[str, object] = {}
    sequence: int | None = None
    deleted: bool = False
    time: float | None = None
    unset: Collection[str] = ()


@dataclass(frozen=True)
class UpdateFormat:
    """The columns and the meaning of updates.

    - `key`: the type of keys, text or int64; `attributes`: the columns of the attributes.
    - `ordered`: updates have sequence numbers. An update whose number is not above the newest one of its key is left
      out. Deleted publications are kept for their numbers. Without it updates count in the order of rows.
    - `partial`: a null leaves the attribute as it was. Without it the update is the whole state.
    """

    key: pa.DataType
    attributes: pa.Schema
    ordered: bool = True
    partial: bool = False

    @property
    def updates(self) -> pa.Schema:
        """The columns of updates: key, sequence, deleted, time, unset, attributes."""
        head = {
            "key": self.key,
            "sequence": pa.int64(),
            "deleted": pa.bool_(),
            "time": pa.float64(),
            "unset": pa.list_(pa.string()),
        }
        return pa.schema([*(pa.field(name, kind) for name, kind in head.items()), *self.attributes])

    @property
    def states(self) -> pa.Schema:
        """The columns of states: key, sequence, alive, attributes."""
        head = {"key": self.key, "sequence": pa.int64(), "alive": pa.bool_()}
        return pa.schema([*(pa.field(name, kind) for name, kind in head.items()), *self.attributes])

    def table(self, updates: Iterable[Update]) -> pa.Table:
        """Make a table of updates, as `Publications.apply` takes it."""
        rows = [
            (u.key, u.sequence, u.deleted, u.time, list(u.unset) or None, *map(u.attributes.get, self.attributes.names))
            for u in updates
        ]
        schema = self.updates
        arrays = [column_of([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
        return pa.Table.from_arrays(arrays, schema=schema)


class OrderedUpdates(NamedTuple):
    """The updates that count, grouped by publication and in order."""

    rows: Rows
    numbers: Rows
    """The numbers of their keys."""
    first: Flags
    """Whether the update is the first one of its publication."""
    previous: Rows
    """The state before it: a row of the stored states, or their number plus the place of an update here, or -1."""


def order_updates(numbers: Rows, sequences: Rows | None, state_rows: Rows, latest: Rows, stored: int) -> OrderedUpdates:
    """Order updates by the numbers of their keys, then by sequence, and leave out late ones and repetitions.

    By the number of a key, `state_rows` is the row of its stored state, -1 without one, and `latest` its newest
    sequence number; `stored` counts the stored states. Without sequences, updates count in the order of rows.
    """
    if sequences is None:
        rows = np.argsort(numbers, kind="stable")
        numbers = numbers[rows]
    else:
        rows = np.lexsort((sequences, numbers))
        numbers, sequences = numbers[rows], sequences[rows]
        counts = (state_rows[numbers] < 0) | (sequences > latest[numbers])
        counts[1:] &= (numbers[1:] != numbers[:-1]) | (sequences[1:] != sequences[:-1])
        rows, numbers = rows[counts], numbers[counts]
    first = np.ones(len(rows), np.bool_)
    first[1:] = numbers[1:] != numbers[:-1]
    previous = np.where(first, state_rows[numbers], stored - 1 + np.arange(len(rows)))
    return OrderedUpdates(rows, numbers, first, previous)


def blanked(own: pa.Array, blank: Flags) -> pa.Array:
    """Return the column with nulls where `blank` is set."""
    if not blank.any():
        return own
    return own.take(row_numbers(np.arange(len(own)), blank))


def merged(stored: pa.ChunkedArray, own: pa.Array, blank: Flags, first: Flags, previous: Rows) -> pa.Array:
    """Return an attribute after partial updates: a null in `own` means the value before, `blank` means null.

    Updates are grouped by publication, in order. `first` marks the first update of each; for those, `previous` is the
    row of the stored state, -1 without one. The value before is that of the previous update or of the stored state.
    """
    says = blank | flags_of(own.is_valid())
    source = np.maximum.accumulate(np.where(says | first, np.arange(len(own)), 0))
    from_stored = ~says[source]
    rows = previous[source[from_stored]]
    taken = as_array(stored.take(row_numbers(rows, rows < 0)))
    nothing = blank[source]
    source[from_stored] = len(own) + np.arange(len(rows))
    return pa.concat_arrays([own, taken]).take(row_numbers(source, nothing))


def removed(unset: pa.Array, name: str) -> Flags:
    """Return which updates remove the attribute of this name."""
    out = np.zeros(len(unset), np.bool_)
    is_named = pc.is_in(pc.list_flatten(unset), column_of([name], pa.string()))
    out[values_of(pc.list_parent_indices(unset))[flags_of(is_named)]] = True
    return out
