"""The publications of a broker, on behalf of principals: put, patch, delete, read and list them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from whimbrel.broker.publications.publication_topic import Updates
from whimbrel.broker.publications.space_topic import SpaceUpdates
from whimbrel.broker.publications.topics import StatefulTopics
from whimbrel.broker.publications.update_requests import PublicationUpdate, check_key
from whimbrel.broker.requests.errors import BrokerError, NotFound, Unavailable
from whimbrel.broker.sequencing.request_group import Batch, IgnoredResult, Published, RequestGroup
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.store import Store, StoredPublication
from whimbrel.model.token_rules import allows_text

_UPDATE_BYTES = 64  # what an update counts for in the queue besides its content


@dataclass(eq=False)
class PublicationService:
    """Changes and reads publications. A principal sees those of its tenant that its rules allow."""

    _runtime: Runtime
    topics: StatefulTopics
    _store: Store
    _timestamps: frozenset[str]

    async def update(self, updates: list[PublicationUpdate], principal: Principal) -> list[Published | BrokerError]:
        """Apply updates in their order. Returns when they are on disk, with an offset or an error for each."""
        return await submit_updates(
            self._runtime,
            self.topics.publications.update,
            Updates(updates, principal.tenant, principal.rules),
        )

    def find(self, key: str, principal: Principal) -> StoredPublication:
        """A publication as it is on disk; NotFound if there is none that the principal may see."""
        held = self._store.publication(principal.tenant, check_key(key))
        if held is None or not allows_text(principal.rules, held.state, self._timestamps):
            raise NotFound(f"Expected the key of a publication, but {key[:80]!r} is none")
        return held

    def page(self, principal: Principal, after: str, limit: int) -> tuple[list[StoredPublication], str | None]:
        """Publications with keys above `after` that the principal may see, and the `after` of the next page."""
        found = self._store.publications(principal.tenant, after, limit)
        seen = [one for one in found if allows_text(principal.rules, one.state, self._timestamps)]
        return seen, found[-1].key if len(found) == limit else None

    def expire(self) -> None:
        """Ask the sequencer to expire dwells, if one is due. Upkeep calls it in every round."""
        if self.topics.is_due:
            with contextlib.suppress(Unavailable):  # it is tried again
                self._runtime.submit(Batch(self.topics.wake, None, 1, _UPDATE_BYTES, IgnoredResult()))


async def submit_updates(
    runtime: Runtime, decide: Callable[[RequestGroup, list[Batch]], None], content: Updates | SpaceUpdates
) -> list[Published | BrokerError]:
    """Queue updates for the sequencer. Returns when they are on disk, with an offset or an error for each."""
    size = sum(len(update.content) + _UPDATE_BYTES for update in content.updates)
    future = runtime.loop.create_future()
    runtime.submit(Batch(decide, content, len(content.updates), size, future))
    return cast("list[Published | BrokerError]", await future)
