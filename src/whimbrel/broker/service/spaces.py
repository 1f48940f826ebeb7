"""The subject spaces of a broker, on behalf of principals: define and drop them, and subscribe with regions."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import msgspec

from whimbrel.broker.publications.space_topic import SpaceTopic
from whimbrel.broker.requests.entries import Change, SubscriptionEnd
from whimbrel.broker.requests.errors import Conflict, NotFound
from whimbrel.broker.requests.subscriptions import SubscriptionRequest
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.service.subscription_registry import Registry
from whimbrel.broker.service.subscriptions import Subscriptions, Versions
from whimbrel.broker.store import Store, StoredSubscription

_EVERYBODYS = "a space is everybody's who has its tenant"


@dataclass(eq=False)
class SpaceService:
    """Changes and reads spaces. A principal sees the spaces of its tenant."""

    _runtime: Runtime
    _topic: SpaceTopic
    _registry: Registry
    _subscriptions: Subscriptions
    _store: Store

    async def define(self, name: str, dimensions: dict[str, Any], principal: Principal) -> None:
        """Define a space; one with the same dimensions may be there already."""
        principal.require_no_rules(_EVERYBODYS)

        def decide(_: int) -> tuple[list[Change], object]:
            return list(self._topic.define(principal.tenant, name, dimensions)), None

        await self._runtime.decide(decide)

    async def drop(self, name: str, principal: Principal) -> None:
        """Drop a space with its publications, and end the subscriptions on it."""
        principal.require_no_rules(_EVERYBODYS)

        def decide(offset: int) -> tuple[list[Change], object]:
            change, ids = self._topic.drop(principal.tenant, name)
            for id in ids:
                if (held := self._registry.newest(id)) is not None:
                    self._registry.end(offset, held)
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

    async def subscribe(
        self, space: str, id: str, request: SubscriptionRequest, principal: Principal, versions: Versions
    ) -> tuple[StoredSubscription, bool]:
        """Create a subscription on a space, or replace it; True if it is new."""
        asked = msgspec.structs.replace(request, on=f"spaces/{space}")
        body = msgspec.json.encode(asked)
        if versions is None and await self._runtime.in_thread(self._registry.newest, id) is None:
            with contextlib.suppress(Conflict):  # somebody was faster: a request that came twice, perhaps
                return await self._subscriptions.create((asked, body), principal, id), True
        return await self._subscriptions.replace(id, (asked, body), principal, versions), False

    def find_subscription(self, space: str, id: str, principal: Principal) -> StoredSubscription:
        """A subscription on a space; NotFound if there is none."""
        held = self._subscriptions.find(id, principal)
        if held.on != f"spaces/{space}":
            raise NotFound(f"Expected the id of a subscription on space {space!r}, but {id[:80]!r} is none")
        return held
