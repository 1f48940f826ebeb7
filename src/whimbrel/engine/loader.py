"""Bulk loads for programs that compile indexes, such as the Spark pipeline; not part of the public `Index`.

`load` adds good subscriptions and returns bad ones, where `Index.add_many` adds all or nothing. `RowNumbers` reads the
row numbers that `Index.match_blocks` yields, for callers that keep them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from whimbrel.engine.index import Index
from whimbrel.engine.intake.subscriptions import read_subscriptions
from whimbrel.model.errors import WhimbrelError

if TYPE_CHECKING:
    import pyarrow as pa


class Reject(NamedTuple):
    """A subscription that was not added: its row in the input, and why."""

    row: int
    error: WhimbrelError


def load(index: Index, subscriptions: pa.Table, dialect: str = "sql") -> list[Reject]:
    """Add the subscriptions whose filters are good, as one segment, and return the others.

    Takes what `Index.add_many` takes, and raises the same errors about ids. Parses in the calling thread only, for
    callers that use all cores already.
    """
    batch = read_subscriptions(subscriptions, dialect, index.schema)
    parsed, errors = batch.parse_good()
    good = np.ones(len(batch.texts), bool)
    good[[row for row, _ in errors]] = False
    index._subscriptions.add_many(batch, parsed, good)
    return [Reject(*error) for error in errors]


class RowNumbers:
    """The row numbers of an index, read-only."""

    def __init__(self, index: Index) -> None:
        self._subscriptions = index._subscriptions

    def __len__(self) -> int:
        """How many rows there are, dead ones included: all row numbers are below."""
        return self._subscriptions.ids.rows

    def find(self, id: object) -> int:
        """The row of a subscription; -1 if it is not there."""
        return self._subscriptions.find(id)
