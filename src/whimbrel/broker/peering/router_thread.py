"""The thread of the router. Work is done in the order in which it was submitted; its messages go to peers."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from whimbrel.broker.peering.routing import LinkRouter, Sent
from whimbrel.broker.sequencing.publishing import LiveIndex
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.store import Store
from whimbrel.model.token_rules import Rules

logger = logging.getLogger("whimbrel.overlay")

T = TypeVar("T")


@dataclass(eq=False)
class RouterThread:
    """Runs work on a router. `deliver` gets the messages to peers, in the event loop and in their order.

    Work that raises may leave the router with a hole: filters that nobody is told of. Then `on_failure` is called in
    the event loop, and nothing more is done on that router until `replace` gives another.
    """

    router: LinkRouter
    _runtime: Runtime
    _deliver: Callable[[list[Sent]], None]
    _on_failure: Callable[[], None]
    _has_failed: bool = False
    _stopping: bool = False

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "whimbrel-router")

    async def run(self, work: Callable[[LinkRouter], T]) -> T:
        """Call `work` in the thread, and return its result."""
        return await self._runtime.loop.run_in_executor(self._pool, lambda: work(self.router))

    def submit(self, work: Callable[[LinkRouter], list[Sent]]) -> None:
        """Queue `work`; the messages that it returns are delivered. From any thread."""

        def task() -> None:
            if self._has_failed:
                return
            try:
                sent = work(self.router)
            except Exception:
                logger.exception("the router failed")
                self._has_failed = True
                self._call(self._on_failure)
            else:
                if sent:
                    self._call(self._deliver, sent)

        self._queue(task)

    def replace(self, router: LinkRouter, fill: Callable[[LinkRouter], list[Sent]]) -> None:
        """Go on with another router, which `fill` fills. Work that was submitted before is done on the former one."""

        def task() -> None:
            self.router, self._has_failed = router, False

        self._queue(task)
        self.submit(fill)

    def stop(self) -> None:
        """Finish the work that waits; its messages are not sent."""
        self._stopping = True
        self._pool.shutdown()

    def _queue(self, task: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # it is shut down
            self._pool.submit(task)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        if not self._stopping:
            self._runtime.call(function, *arguments)


def restore(
    router: LinkRouter, store: Store, live: LiveIndex, links: Iterable[tuple[str, Rules]], optimizes: bool
) -> list[Sent]:
    """Fill a new router with the peers, their filters and the local subscriptions of the store; return the messages.

    A filter with which the router fails is left out, and logged.
    """
    for peer, rules in links:
        restore_peer(router, store, peer, rules)
    held = [one for one in store.subscriptions("", 1 << 62) if one.on == "events"]
    local = [(one.id, one.number, one.text, one.dialect) for one in held]
    local += [(f"stream{number}", 0, text, "sql") for number, text in list(live.ephemeral.items())]
    for id, number, text, dialect in local:
        try:
            router.put(id, number, text, dialect)
        except Exception:
            _leave_out(router, f"subscription {id}")
    return router.optimize() if optimizes else []


def restore_peer(router: LinkRouter, store: Store, peer: str, rules: Rules) -> list[Sent]:
    """Add the stored filters of a peer, under the rules that hold now; return the messages."""
    router.join(peer, rules)
    sent: list[Sent] = []
    for tenant, text in store.peer_filters(peer):
        try:
            sent += router.change_filters(peer, [(tenant, text)])
        except Exception:
            _leave_out(router, f"a filter of {peer}")
    return sent


def _leave_out(router: LinkRouter, what: str) -> None:
    """Note a filter that cannot be routed. Call it where the exception is handled."""
    router.refused_filters += 1
    logger.exception("%s cannot be routed, and is left out", what)
