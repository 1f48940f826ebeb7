"""The subscriptions of a broker: create, replace, delete and find them.

A filter is parsed and its cost estimated in a thread, under the rules of the caller's token; the sequencer then checks
that these rules still hold, and makes the version known to the index at the offset that it gets.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from time import time_ns
from typing import TypeAlias, cast

import msgspec

from whimbrel.broker.requests.entries import Change, SinkSecrets, SubscriptionEnd, SubscriptionPut
from whimbrel.broker.requests.errors import BrokerError, Conflict, PreconditionFailed, Unprocessable, refusal
from whimbrel.broker.requests.subscriptions import (
    SubscriptionRequest,
    entry_of,
    entry_of_text,
    filter_of,
    outer_of,
    plain_text,
    read_time,
)
from whimbrel.broker.sequencing.publishing import LiveIndex
from whimbrel.broker.service.pending import Pending
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.quotas import Quotas
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.service.sink_secrets import check_waiver, first_secrets, next_secrets
from whimbrel.broker.service.subscription_registry import Registry
from whimbrel.broker.service.tokens import Tokens
from whimbrel.broker.store import Store, StoredSubscription
from whimbrel.log import LogReader
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.filter import Filter

RequestWithBody: TypeAlias = tuple[SubscriptionRequest, bytes]
"""A request and the body that it came in."""
Versions: TypeAlias = frozenset[str] | None
"""The versions that If-Match names; None for any."""


@dataclass(eq=False)
class Subscriptions:
    """Changes subscriptions on behalf of principals."""

    _runtime: Runtime
    _live: LiveIndex
    _registry: Registry
    _tokens: Tokens
    _quotas: Quotas
    _secrets: Pending[SinkSecrets | None]
    _store: Store
    _log: LogReader

    async def create(self, asked: RequestWithBody, principal: Principal, id: str | None = None) -> StoredSubscription:
        """Create a subscription, with a new id or the one that is given."""
        self._quotas.check_count(principal.name, 1)
        check_waiver(asked[0], principal)
        put, filter = await self._runtime.in_parser(self._prepared, asked, id or uuid.uuid4().hex, principal)
        await self.take_cost(filter, principal.name)
        start = await self._start_of(asked[0])

        def decide(offset: int) -> tuple[list[Change], object]:
            self._tokens.check_rules(principal.name, put.rules)
            if id is not None and self._registry.newest(id) is not None:
                raise Conflict(f"Expected a new id, but there is a subscription {id!r}")
            entry = msgspec.structs.replace(put, start=None if start is None or start >= offset else start)
            made = self._registry.admit(offset, offset, entry, filter)
            secrets = first_secrets(asked[0], entry.id)
            return self._with_secrets(offset, entry, secrets), made

        return cast("StoredSubscription", await self._runtime.decide(decide))

    async def replace(
        self, id: str, asked: RequestWithBody, principal: Principal, versions: Versions = None
    ) -> StoredSubscription:
        """Give a subscription another filter, which holds from this offset on.

        The rules are those of its owner, whoever asks.
        """
        former = self.find(id, principal)
        owner = former.owner
        check_waiver(asked[0], principal, former)
        by = principal if owner == principal.name else self._tokens.owner(owner)
        put, filter = await self._runtime.in_parser(self._prepared, asked, id, by)
        await self.take_cost(filter, owner)

        def decide(offset: int) -> tuple[list[Change], object]:
            held = self._registry.held(id, principal)
            _check_version(held, versions)
            if put.on != held.on:
                raise Unprocessable(f"Expected a subscription on {held.on}, as it is - at $.on", "invalid-subscription")
            self._tokens.check_rules(owner, put.rules)
            entry = msgspec.structs.replace(put, owner=held.owner, created=held.created, start=held.start)
            made = self._registry.admit(offset, held.first, entry, filter)
            self._live.remove(held.number)
            secrets = next_secrets(asked[0], held, self._secrets.newest(id))
            return self._with_secrets(offset, entry, secrets), made

        return cast("StoredSubscription", await self._runtime.decide(decide))

    async def delete(self, id: str, principal: Principal, versions: Versions = None) -> None:
        """End a subscription."""

        def decide(offset: int) -> tuple[list[Change], object]:
            held = self._registry.held(id, principal)
            _check_version(held, versions)
            self._registry.end(offset, held)
            return [SubscriptionEnd(id)], None

        await self._runtime.decide(decide)

    async def import_many(
        self, asked: list[RequestWithBody], principal: Principal
    ) -> list[StoredSubscription | BrokerError]:
        """Create many subscriptions in one step. An `id` is kept if no other subscription has it."""
        self._quotas.check_count(principal.name, len(asked))
        entries = await self._runtime.in_parser(self._entries, asked, principal)
        given = {request.id for request, _ in asked if request.id is not None}

        def decide(offset: int) -> tuple[list[Change], object]:
            self._tokens.check_rules(principal.name, principal.rules)
            changes, results = self._registry.admit_many(offset, entries, given)
            for (request, _), result in zip(asked, results, strict=True):
                if isinstance(result, StoredSubscription) and (secrets := first_secrets(request, result.id)):
                    self._secrets.note(secrets.id, offset + len(changes), secrets)
                    changes.append(secrets)
            return changes, results

        return cast("list[StoredSubscription | BrokerError]", await self._runtime.decide(decide))

    def _with_secrets(self, offset: int, entry: SubscriptionPut, secrets: SinkSecrets | None) -> list[Change]:
        """The entries of a version and of its secrets, if they change."""
        if secrets is None:
            return [entry]
        self._secrets.note(secrets.id, offset + 1, secrets)
        return [entry, secrets]

    async def checked(self, request: SubscriptionRequest, principal: Principal) -> Filter:
        """The filter that would be matched; raises what `create` would, but for quotas."""
        check_waiver(request, principal)
        _, filter = await self._runtime.in_parser(self._prepared, (request, b"{}"), "", principal)
        if self._quotas.is_judged(str(filter)):
            await self._runtime.in_background(self._cost, filter)
        await self._start_of(request)
        return filter

    async def take_cost(self, filter: Filter, owner: str, stream: object = None) -> None:
        """Refuse a filter that would cost every event too much, alone or with the others of its owner.

        `stream` is the stream that it is for, if it is for one.
        """
        if self._quotas.is_judged(str(filter)):
            cost = await self._runtime.in_background(self._cost, filter)
            await self._runtime.in_background(self._quotas.take_cost, owner, cost, stream)

    def _cost(self, filter: Filter) -> float:
        (cost,) = self._quotas.judge([filter])
        if isinstance(cost, Unprocessable):
            raise cost
        return cost

    def find(self, id: str, principal: Principal) -> StoredSubscription:
        """The subscription; NotFound if there is none or it belongs to somebody else."""
        return principal.check_seen(self._store.subscription(id), id)

    def page(self, principal: Principal, after: str, limit: int) -> list[StoredSubscription]:
        """Subscriptions that the principal may see, with ids above `after`."""
        return self._store.subscriptions(after, limit, None if principal.sees_all else principal.name)

    def _prepared(self, asked: RequestWithBody, id: str, principal: Principal) -> tuple[SubscriptionPut, Filter]:
        request, body = asked
        on_events = request.on == "events"
        rules = {} if request.on.startswith("spaces/") else principal.rules  # there they constrain the regions
        filter = filter_of(request, rules, self._live.index.schema if on_events else None)
        entry = entry_of(request, body, id, principal.name, filter, principal.rules, time_ns() // 1000)
        if request.on != "events":
            outer_of(request, principal.rules)  # a wider filter that cannot be read is refused now
            entry = msgspec.structs.replace(entry, tenant=principal.tenant)
        return entry, filter

    def _entries(self, asked: list[RequestWithBody], principal: Principal) -> list[SubscriptionPut | BrokerError]:
        """The entries of many requests. Plain texts are not parsed here: the index does that for all at once."""
        made: list[SubscriptionPut | BrokerError] = []
        filters: dict[int, Filter] = {}
        now = time_ns() // 1000
        for place, (request, body) in enumerate(asked):
            id = request.id or uuid.uuid4().hex
            try:
                check_waiver(request, principal)
                text = plain_text(request)
                if text and request.on == "events" and not principal.rules and not self._quotas.is_judged(text):
                    entry = entry_of_text(request, body, id, principal.name, text, principal.rules, now)
                else:
                    entry, filters[place] = self._prepared((request, body), id, principal)
                made.append(entry)
            except WhimbrelError as error:
                made.append(refusal(error, "invalid-filter"))
        judged = {place: filter for place, filter in filters.items() if self._quotas.is_judged(str(filter))}
        if judged:
            total = 0.0
            for place, cost in zip(judged, self._quotas.judge(list(judged.values())), strict=True):
                if isinstance(cost, Unprocessable):
                    made[place] = cost
                else:
                    total += cost
            self._quotas.take_cost(principal.name, total)
        return made

    async def _start_of(self, request: SubscriptionRequest) -> int | None:
        """The first offset that a new subscription may see; None for only what comes after it."""
        start = request.start
        if start is None or start == "now":
            return None
        floor, end = self._log.bounds
        if start == "beginning":
            return floor
        if isinstance(start, int):
            if not floor <= start <= end:
                raise Unprocessable(
                    f"Expected an offset from {floor} to {end}, but got {start} - at $.start", "bad-offset"
                )
            return start
        return await self._runtime.in_thread(self._log.first_since, read_time(start, "$.start"))


def _check_version(held: StoredSubscription, versions: Versions) -> None:
    if versions is not None and str(held.number) not in versions:
        found = ", ".join(sorted(versions))[:80]
        raise PreconditionFailed(f'Expected version "{held.number}", but If-Match says {found}')
