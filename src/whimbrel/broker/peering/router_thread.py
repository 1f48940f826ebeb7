"""The thread of the router. Work is done in the order in which it was submitted; its messages go to peers."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from whimbrel.broker.peering.routing import LinkRouter, Sent
from whimbrel.broker.sequencing.publishing import LiveIndex
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.store import Store
from whimbrel.model.token_rules import Rules

logger = logging.getLogger("whimbrel.overlay")

T = TypeVar("T")


class RouterThread:
    """Runs work on a router. `deliver` gets the messages to peers, in the event loop and in their order."""

    def __init__(self, router: LinkRouter, runtime: Runtime, deliver: Callable[[list[Sent]], None]) -> None:
        self.router = router
        self._runtime = runtime
        self._deliver = deliver
        self._pool = ThreadPoolExecutor(1, "whimbrel-router")
        self._stopping = False

    async def run(self, work: Callable[[LinkRouter], T]) -> T:
        """Call `work` in the thread, and return its result."""
        return await self._runtime.loop.run_in_executor(self._pool, work, self.router)

    def submit(self, work: Callable[[LinkRouter], list[Sent]]) -> None:
        """Queue `work`; the messages that it returns are delivered. From any thread."""

        def task() -> None:
            try:
                sent = work(self.router)
            except Exception:
                logger.exception("the router failed")
                return
            if sent and not self._stopping:
                self._runtime.call(self._deliver, sent)

        with contextlib.suppress(RuntimeError):  # it is shut down
            self._pool.submit(task)

    def stop(self) -> None:
        """Finish the work that waits; its messages are not sent."""
        self._stopping = True
        self._pool.shutdown()


def restore(
    router: LinkRouter, store: Store, live: LiveIndex, links: Iterable[tuple[str, Rules]], optimizes: bool
) -> list[Sent]:
    """Fill a new router with the peers, their filters and the local subscriptions of the store; return the messages."""
    for peer, rules in links:
        restore_peer(router, store, peer, rules)
    for held in store.subscriptions("", 1 << 62):
        if held.on == "events":
            router.put(held.id, held.number, held.text, held.dialect)
    for number, text in list(live.ephemeral.items()):
        router.put(f"stream{number}", 0, text, "sql")
    return router.optimize() if optimizes else []


def restore_peer(router: LinkRouter, store: Store, peer: str, rules: Rules) -> list[Sent]:
    """Add the stored filters of a peer, under the rules that hold now; return the messages."""
    router.join(peer, rules)
    return router.change_filters(peer, store.peer_filters(peer))
