"""The subscriptions as the sequencer sees them: those in the store, and changes that are not on disk yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from whimbrel.broker.delivery.history import History
from whimbrel.broker.publications.topics import StatefulTopics
from whimbrel.broker.requests.entries import Change, SubscriptionEnd, SubscriptionPut
from whimbrel.broker.requests.errors import BrokerError, Conflict, refusal
from whimbrel.broker.requests.subscriptions import entry_of, filter_of, read_spec
from whimbrel.broker.sequencing.publishing import LiveIndex
from whimbrel.broker.service.disk_space import DiskSpace
from whimbrel.broker.service.pending import Pending
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.store import Store, StoredSubscription
from whimbrel.engine.intake.subscriptions import BadSubscriptions
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.filter import Filter


@dataclass(eq=False)
class Registry:
    """Admits and ends versions of subscriptions. All methods but `folded` run in the sequencer.

    What is admitted here must be appended to the log at the number that it was given.
    """

    _live: LiveIndex
    _topics: StatefulTopics
    _store: Store
    _history: History
    _space: DiskSpace

    def __post_init__(self) -> None:
        self._pending = Pending(self._store.subscription)

    def newest(self, id: str) -> StoredSubscription | None:
        """The newest version, also if it is not in the store yet; None if there is no such subscription."""
        return self._pending.newest(id)

    def held(self, id: str, principal: Principal) -> StoredSubscription:
        """The newest version; NotFound if there is none or it belongs to somebody else."""
        return principal.check_seen(self.newest(id), id)

    def owned(self, name: str) -> list[StoredSubscription]:
        """All subscriptions of a token, including changes that the store has not seen yet."""
        decided = self._pending.decided()
        held = {one.id: one for one in self._store.subscriptions("", 1 << 62, name)}
        for id, newest in decided.items():
            held.pop(id, None)
            if newest is not None and newest.owner == name:
                held[id] = newest
        return list(held.values())

    def admit(
        self, number: int, first: int, entry: SubscriptionPut, filter: Filter | None = None
    ) -> StoredSubscription:
        """Add a version to the index, or raise. It must then be appended to the log at the offset `number`.

        `filter` is the entry's, if it was parsed already.
        """
        self._space.check(len(entry.spec))
        if entry.on == "events":
            self._live.add(number, entry.text if filter is None else filter, entry.dialect, entry.rules)
        else:
            self._topics.admit(number, first, entry, filter)
        return self._entered(number, first, entry)

    def admit_many(
        self, offset: int, asked: list[SubscriptionPut | BrokerError], given: set[str]
    ) -> tuple[list[Change], list[StoredSubscription | BrokerError]]:
        """Add many versions, each the first of its subscription; bad ones are answered with their error.

        Those on publications and spaces come first in the log. Ids that were `given` may be there already.
        """
        self._space.check(sum(len(entry.spec) for entry in asked if isinstance(entry, SubscriptionPut)))
        changes: list[Change] = []
        results: dict[int, StoredSubscription | BrokerError] = {}
        on_events: dict[int, SubscriptionPut] = {}
        seen: set[str] = set()
        for place, entry in enumerate(asked):
            if isinstance(entry, BrokerError):
                results[place] = entry
            elif entry.id in given and (entry.id in seen or self.newest(entry.id) is not None):
                results[place] = Conflict(f"Expected a new id, but there is a subscription {entry.id!r}")
            elif entry.on == "events":
                on_events[place] = entry
                seen.add(entry.id)
            else:
                number = offset + len(changes)
                try:
                    self._topics.admit(number, number, entry, None)
                except WhimbrelError as error:
                    results[place] = refusal(error, "invalid-filter")
                    continue
                results[place] = self._entered(number, number, entry)
                changes.append(entry)
        refused = self._add_to_index(offset + len(changes), on_events)
        for place, entry in on_events.items():
            if place in refused:
                results[place] = refused[place]
                continue
            number = offset + len(changes)
            self._live.constrain(number, entry.rules)
            results[place] = self._entered(number, number, entry)
            changes.append(entry)
        return changes, [results[place] for place in range(len(asked))]

    def _add_to_index(self, first: int, puts: Mapping[int, SubscriptionPut]) -> dict[int, BrokerError]:
        """Add filters to the index in one call, numbered from `first` on; return the errors of bad ones by place."""
        refused: dict[int, BrokerError] = {}
        while good := [place for place in puts if place not in refused]:
            try:
                self._live.index.add_many([(first + at, puts[place].text) for at, place in enumerate(good)])
            except BadSubscriptions as bad:
                refused |= {good[row]: refusal(error, "invalid-filter") for row, error in bad.errors}
            else:
                break
        return refused

    def _entered(self, number: int, first: int, put: SubscriptionPut) -> StoredSubscription:
        """Note a version that was admitted, until the store has it."""
        made = StoredSubscription(
            put.id, number, first, put.owner, put.text, put.dialect, bytes(put.spec), put.protocol, put.created,
            put.start, put.expires, msgspec.json.encode(put.rules).decode(), put.on, put.tenant,
        )  # fmt: skip
        self._pending.note(put.id, number, made)
        return made

    def rewritten(self, held: StoredSubscription, rules: dict[str, Any], tenant: str) -> SubscriptionPut | None:
        """A subscription's next version, under other rules of its token or in another tenant; changes nothing.

        None if its filter would be too large. A rule that does not fit the schema raises.
        """
        request = msgspec.structs.replace(read_spec(held.spec), expires=None)
        schema = self._live.index.schema if held.on == "events" else None
        filter = filter_of(request, {} if held.on.startswith("spaces/") else rules, schema)
        try:
            put = entry_of(request, held.spec, held.id, held.owner, filter, rules, 0)
        except BrokerError:
            return None
        return msgspec.structs.replace(put, created=held.created, start=held.start, expires=held.expires, tenant=tenant)

    def readmit(self, number: int, held: StoredSubscription, put: SubscriptionPut) -> None:
        """Replace a version by the next one, which gets a number."""
        self.admit(number, held.first, put)
        self._live.remove(held.number)

    def end(self, offset: int, held: StoredSubscription) -> None:
        """Remove a subscription, which ends at an offset."""
        if held.on == "events":
            self._live.remove(held.number)
        else:
            self._topics.end(held)
        self._pending.note(held.id, offset, None)
        self._history.forget(held.first)

    def folded(self, offset: int, change: SubscriptionPut | SubscriptionEnd) -> None:
        """Forget a change that the store has applied."""
        self._pending.folded(change.id, offset)
