"""Bulk loads for programs that compile indexes: what `Index` does not offer to everyone.

`load` adds what is good and gives back what is not, where `Index.add_many` adds all or nothing. `RowNumbers` reads the
numbers by which `Index.match_blocks` names subscriptions, for callers that keep such numbers.
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

    Takes what `Index.add_many` takes, and raises on ids as it does. Parses in this thread alone, for callers that use
    all cores already.
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
        """How many rows there are, dead ones included: all numbers are below."""
        return self._subscriptions.ids.rows

    def find(self, id: object) -> int:
        """The row of a subscription; -1 if it is not there."""
        return self._subscriptions.find(id)
