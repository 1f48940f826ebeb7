"""The subject spaces of a broker, on behalf of principals: define, drop, publish and read in them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import msgspec

from whimbrel.broker.publications.region_bodies import allows_regions
from whimbrel.broker.publications.space_topic import SpaceTopic, SpaceUpdates
from whimbrel.broker.publications.update_requests import PublicationUpdate, check_key
from whimbrel.broker.requests.entries import Change, SubscriptionEnd
from whimbrel.broker.requests.errors import BrokerError, Conflict, Forbidden, NotFound
from whimbrel.broker.requests.subscriptions import SubscriptionRequest
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.publications import submit_updates
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.service.subscription_registry import Registry
from whimbrel.broker.service.subscriptions import Subscriptions, Versions
from whimbrel.broker.store import Store, StoredPublication, StoredSubscription

_OWNER = Principal("", frozenset({"admin"}))  # sees every subscription of a space that is dropped


@dataclass(eq=False)
class SpaceService:
    """Changes and reads spaces. A principal sees those of its tenant."""

    _runtime: Runtime
    _topic: SpaceTopic
    _registry: Registry
    _subscriptions: Subscriptions
    _store: Store

    async def define(self, name: str, dimensions: dict[str, Any], principal: Principal) -> None:
        """Define a space; one with the same dimensions may be there already."""
        _check_unconstrained(principal)

        def decide(_: int) -> tuple[list[Change], object]:
            return list(self._topic.define(principal.tenant, name, dimensions)), None

        await self._runtime.decide(decide)

    async def drop(self, name: str, principal: Principal) -> None:
        """Drop a space with its publications, and end the subscriptions on it."""
        _check_unconstrained(principal)

        def decide(offset: int) -> tuple[list[Change], object]:
            change, ids = self._topic.drop(principal.tenant, name)
            for id in ids:
                self._registry.end(offset, self._registry.held(id, _OWNER))
            self._topic.dropped(principal.tenant, name)
            return [change, *(SubscriptionEnd(id, "space-deleted") for id in ids)], None

        await self._runtime.decide(decide)

    def spaces(self, principal: Principal) -> dict[str, dict[str, Any]]:
        """The dimensions of the tenant's spaces, by name."""
        return {name: msgspec.json.decode(text) for _, name, _, text in self._store.spaces(principal.tenant)}

    def find_space(self, name: str, principal: Principal) -> dict[str, Any]:
        """The dimensions of a space; NotFound if there is none."""
        found = self.spaces(principal).get(name)
        if found is None:
            raise NotFound(f"Expected the name of a space, but {name[:80]!r} is none")
        return found

    async def update(
        self, space: str, updates: list[PublicationUpdate], principal: Principal
    ) -> list[Published | BrokerError]:
        """Apply updates in their order. Returns when they are on disk, with an offset or an error for each."""
        content = SpaceUpdates(space, updates, principal.tenant, principal.rules)
        return await submit_updates(self._runtime, self._topic.update, content)

    def find(self, space: str, key: str, principal: Principal) -> StoredPublication:
        """A publication as it is on disk; NotFound if there is none that the principal may see."""
        held = self._store.publication(principal.tenant, check_key(key), space)
        if held is None or not allows_regions(principal.rules, held.state):
            raise NotFound(f"Expected the key of a publication, but {key[:80]!r} is none")
        return held

    def page(
        self, space: str, principal: Principal, after: str, limit: int
    ) -> tuple[list[StoredPublication], str | None]:
        """Publications with keys above `after` that the principal may see, and the `after` of the next page."""
        self.find_space(space, principal)
        found = self._store.publications(principal.tenant, after, limit, space)
        seen = [one for one in found if allows_regions(principal.rules, one.state)]
        return seen, found[-1].key if len(found) == limit else None

    async def subscribe(
        self, space: str, id: str, request: SubscriptionRequest, principal: Principal, versions: Versions
    ) -> tuple[StoredSubscription, bool]:
        """Create a subscription on a space, or replace it; True if it is new."""
        asked = msgspec.structs.replace(request, on=f"spaces/{space}")
        body = msgspec.json.encode(asked)
        if versions is None and not await self._runtime.in_thread(self._registry.is_taken, id):
            with contextlib.suppress(Conflict):  # somebody was faster: a request that came twice, perhaps
                return await self._subscriptions.create((asked, body), principal, id), True
        return await self._subscriptions.replace(id, (asked, body), principal, versions), False

    def find_subscription(self, space: str, id: str, principal: Principal) -> StoredSubscription:
        """A subscription on a space; NotFound if there is none."""
        held = self._subscriptions.find(id, principal)
        if held.on != f"spaces/{space}":
            raise NotFound(f"Expected the id of a subscription on space {space!r}, but {id[:80]!r} is none")
        return held


def _check_unconstrained(principal: Principal) -> None:
    if principal.rules:
        raise Forbidden("Expected a token without rules to define or drop a space")
