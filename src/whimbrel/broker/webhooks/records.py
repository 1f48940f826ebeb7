"""What deliveries change, gathered in memory and stored together every few milliseconds.

After a crash what was not stored yet is repeated: the cursor is older, and the same messages are sent again with the
same ids. One event loop writes here; the store is written in a thread. What it refuses is kept and tried again.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from time import time_ns

from whimbrel.broker.store import Attempt, Cursor, UndeliveredMessage, WebhookChanges, WebhookState, WebhookTables

KEPT = 100
"""Attempts and given-up deliveries of one subscription that are kept."""
WAITING = 100_000
"""Attempts that wait to be stored, at most; while the store refuses, older ones are forgotten."""


class WebhookRecords:
    """Changes that wait to be stored. What is asked for here is newer than what the store says."""

    def __init__(self, store: WebhookTables) -> None:
        self._store = store
        self.pool = ThreadPoolExecutor(1, "whimbrel-webhook-store")
        """The thread that stores."""
        self._empty()
        self._saving: WebhookChanges | None = None
        self._waiters: list[asyncio.Future[bool]] = []
        self._saving_waiters: list[asyncio.Future[bool]] = []
        self._is_refused = False  # what was to be stored last
        self.urgent = asyncio.Event()
        """Set while somebody waits for a change to be stored."""

    def _empty(self) -> None:
        self._cursors: dict[str, Cursor] = {}
        self._states: dict[str, WebhookState] = {}
        self._attempts: dict[str, list[Attempt]] = {}
        self._noted = 0  # attempts
        self._undelivered: list[UndeliveredMessage] = []

    def cursor(self, id: str) -> Cursor | None:
        """The cursor of a subscription, if it is newer than the store's; else None."""
        saving = None if self._saving is None else self._saving.cursors.get(id)
        return self._cursors.get(id, saving)

    def state(self, id: str) -> WebhookState | None:
        """How the deliveries of a subscription stand."""
        for states in (self._states, {} if self._saving is None else self._saving.states):
            if id in states:
                return states[id]
        return self._store.state(id)

    def by_callback(self, digest: str) -> str | None:
        """The subscription that was given a callback; its receiver may be faster than the store."""
        for states in (self._states, {} if self._saving is None else self._saving.states):
            for id, state in states.items():
                if state.callback == digest:
                    return id
        return self._store.by_callback(digest)

    def move(self, id: str, cursor: Cursor) -> None:
        """Move the cursor of a subscription: messages up to it are done."""
        self._cursors[id] = cursor

    def set_state(self, id: str, state: WebhookState) -> None:
        """Set how the deliveries of a subscription stand."""
        self._states[id] = state

    def is_stored(self, id: str) -> bool:
        """Whether the store has all that was set of a subscription's state."""
        return id not in self._states and (self._saving is None or id not in self._saving.states)

    def attempted(self, attempt: Attempt) -> None:
        """Keep an attempt, to be stored. Each subscription keeps its newest ones."""
        kept = self._attempts.setdefault(attempt.id, [])
        kept.append(attempt)
        self._noted += 1
        if len(kept) > 2 * KEPT:
            self._noted -= len(kept) - KEPT
            del kept[:-KEPT]
        if self._noted > WAITING:
            self._noted -= len(self._attempts.pop(next(iter(self._attempts))))

    def given_up(self, undelivered: UndeliveredMessage) -> None:
        """Keep a delivery that was given up, to be stored."""
        self._undelivered.append(undelivered)

    async def stored(self) -> bool:
        """Wait until everything that was changed up to now is stored; False, perhaps at once, if the store refuses."""
        if self._is_refused:
            return False
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self.urgent.set()
        return await waiter

    async def save(self) -> None:
        """Store what waits. If the store refuses, it raises, nobody waits any longer, and the next call tries again."""
        if self._saving is None:
            self.urgent.clear()
            if not (self._cursors or self._states or self._attempts or self._undelivered or self._waiters):
                return
            attempts = [one for kept in self._attempts.values() for one in kept]
            self._saving = WebhookChanges(self._cursors, self._states, attempts, self._undelivered)
            self._saving_waiters, self._waiters = self._waiters, []
            self._empty()
        try:
            await asyncio.get_running_loop().run_in_executor(self.pool, self._store.save, self._saving, KEPT)
        except Exception:
            self._is_refused = True
            _tell([*self._saving_waiters, *self._waiters], False)
            self._saving_waiters, self._waiters = [], []
            raise
        self._saving, self._is_refused = None, False
        _tell(self._saving_waiters, True)


def _tell(waiters: list[asyncio.Future[bool]], is_stored: bool) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(is_stored)


def now_us() -> int:
    """Microseconds since 1970 UTC."""
    return time_ns() // 1_000
