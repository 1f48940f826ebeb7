"""The publications of a broker, in spaces and in none, on behalf of principals: put, patch, delete, read, list them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import cast

from whimbrel.broker.publications.region_bodies import allows_regions
from whimbrel.broker.publications.topics import StatefulTopics
from whimbrel.broker.publications.update_requests import PublicationUpdate, Updates, check_key
from whimbrel.broker.requests.errors import BrokerError, NotFound, Unavailable
from whimbrel.broker.sequencing.request_group import Batch, IgnoredResult, Published
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.store import Store, StoredPublication
from whimbrel.model.token_rules import Rules, allows_text

_UPDATE_BYTES = 64  # what an update counts for in the queue besides its content


@dataclass(eq=False)
class PublicationService:
    """Changes and reads publications. A principal sees the publications of its tenant that its rules allow."""

    _runtime: Runtime
    topics: StatefulTopics
    _store: Store
    _timestamps: frozenset[str]

    async def update(
        self, updates: list[PublicationUpdate], principal: Principal, space: str = ""
    ) -> list[Published | BrokerError]:
        """Apply updates in their order. Returns when they are on disk, with an offset or an error for each."""
        topic = self.topics.spaces if space else self.topics.publications
        size = sum(len(update.content) + _UPDATE_BYTES for update in updates)
        content = Updates(updates, principal.tenant, principal.rules, space)
        future = self._runtime.loop.create_future()
        self._runtime.submit(Batch(topic.update, content, len(updates), size, future))
        return cast("list[Published | BrokerError]", await future)

    def find(self, key: str, principal: Principal, space: str = "") -> StoredPublication:
        """A publication as it is on disk; NotFound if there is none that the principal may see."""
        held = self._store.publication(principal.tenant, check_key(key), space)
        if held is None or not self._allows(principal.rules, held.state, space):
            raise NotFound(f"Expected the key of a publication, but {key[:80]!r} is none")
        return held

    def page(
        self, principal: Principal, after: str, limit: int, space: str = ""
    ) -> tuple[list[StoredPublication], str | None]:
        """Publications with keys above `after` that the principal may see, and the `after` of the next page."""
        found = self._store.publications(principal.tenant, after, limit, space)
        seen = [one for one in found if self._allows(principal.rules, one.state, space)]
        return seen, found[-1].key if len(found) == limit else None

    def _allows(self, rules: Rules, state: bytes, space: str) -> bool:
        return allows_regions(rules, state) if space else allows_text(rules, state, self._timestamps)

    def expire(self) -> None:
        """Ask the sequencer to expire dwells, if one is due. Upkeep calls it in every round."""
        if self.topics.is_due:
            with contextlib.suppress(Unavailable):  # it is tried again
                self._runtime.submit(Batch(self.topics.wake, None, 1, _UPDATE_BYTES, IgnoredResult()))
