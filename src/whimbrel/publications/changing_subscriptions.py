"""Subscriptions that come and go one by one, for publications whose owner changes its index in place.

A subscription has an id from 0 on, which grows from one to the next. In the index it is 2 * id, and the wider filter of
its hysteresis, if it has one, is 2 * id + 1. Codes are the places of ids in the order of addition, in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.publications.changes import Codes, Matches
from whimbrel.publications.index_version import RuleCodes, SubscriptionCodes
from whimbrel.publications.keys import with_capacity
from whimbrel.publications.transition_rules import TransitionRules
from whimbrel.ranks.arrow import numbers

Find = Callable[[pa.Table], tuple[NDArray[np.int64], NDArray[np.int64]]]
"""Matches states: the offsets of each state's ids, and the ids."""


class ChangingSubscriptions:
    """The subscriptions of an index that changes in place. Codes of those that are gone are not used again.

    >>> subscriptions = ChangingSubscriptions(lambda states: (np.array([0, 1]), np.array([2 * 17])))
    >>> for id in (3, 17):
    ...     subscriptions.add(id, leave=False, remembered=False)
    >>> subscriptions.match(pa.table({"state": [b"{}"]})).codes.tolist(), subscriptions.ids(np.array([2])).to_pylist()
    ([2], [34])
    """

    number = 1
    id_type = pa.int64()

    def __init__(self, find: Find) -> None:
        self._find = find
        self._ids = np.zeros(16, np.int64)
        self._count = 0
        self._told: set[int] = set()
        self._remembered: set[int] = set()
        self._rule_codes: RuleCodes | None = None

    def __len__(self) -> int:
        return 2 * self._count

    def add(self, id: int, leave: bool, remembered: bool) -> None:
        """Add a subscription, whose id is above all others, or give one other options."""
        if not self._count or id > self._ids[self._count - 1]:
            self._ids = with_capacity(self._ids, self._count + 1)
            self._ids[self._count] = id
            self._count += 1
        for ids, wanted in ((self._told, leave), (self._remembered, remembered)):
            if wanted != (id in ids):
                ids ^= {id}
                self._rule_codes = None

    def remove(self, id: int) -> None:
        """Forget the options of a subscription."""
        self.add(id, leave=False, remembered=False)

    def codes(self, ids: NDArray[np.int64]) -> Codes:
        """Convert ids of the index to codes."""
        return (2 * np.searchsorted(self._ids[: self._count], ids >> 1) + (ids & 1)).astype(np.int32)

    def ids(self, codes: NDArray[np.integer]) -> pa.Array:
        """Convert codes to ids of the index."""
        return numbers(2 * self._ids[codes >> 1] + (codes & 1))

    def rule_codes(self, rules: TransitionRules) -> RuleCodes:
        """The codes of subscriptions that are told of leaves, and of those whose matches alone are no transitions."""
        if self._rule_codes is None:
            told = 2 * np.array(sorted(self._told), np.int64)
            ids = 2 * np.array(sorted(self._remembered), np.int64)
            silent = np.sort(np.concatenate([ids, ids + 1]))
            codes = self.codes(silent)
            self._rule_codes = RuleCodes(
                self.codes(told), codes, dict(zip(codes.tolist(), silent.tolist(), strict=True))
            )
        return self._rule_codes

    def translated(self, old: SubscriptionCodes, codes: Codes) -> Codes:
        """Return the codes as they are: an index that changes in place has one version."""
        return codes

    def match(self, states: pa.Table) -> Matches:
        """Match every row of a table of states."""
        offsets, ids = self._find(states)
        return Matches.of_runs(offsets, self.codes(ids), len(self))
