"""The engine of webhooks: a thread with an event loop of its own, which wakes channels and gives them their turns.

A subscription with a sink costs eight bytes until something matches it; then it has a channel. Channels wait in the
queue of their host, run one request at a time, or wait for a time: a retry, a digest, the rate that their receiver
allows. Publishes never wait for any of this.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, TypeVar

import numpy as np
import uvloop
from numpy.typing import NDArray

from whimbrel.broker.delivery.message_reader import MessageReader
from whimbrel.broker.lists import RunSet
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.store import Store
from whimbrel.broker.webhooks.addresses import Addresses, Resolve
from whimbrel.broker.webhooks.channel import AT_ONCE, IDLE, Channel, TimedChannels
from whimbrel.broker.webhooks.delivering import Deliverer
from whimbrel.broker.webhooks.host_queues import HostQueues
from whimbrel.broker.webhooks.http_client import IDLE_SECONDS, WebhookClient
from whimbrel.broker.webhooks.watched import WatchedNumbers, lagging_subscriptions

IN_FLIGHT = 1_024
"""Requests at one time, at most."""
IDLE_CHANNELS = 10_000
"""Channels without work that stay loaded, at most."""
SAVE_SECONDS = 0.05
"""How often cursors and attempts are stored: a crash repeats what was delivered in that time."""
URGENT_SECONDS = 0.005
"""How soon they are stored when a channel waits for it; others join it meanwhile."""
STOP_SECONDS = 2.0
"""How long requests may take when the broker stops."""
TROUBLE_SECONDS = 1.0
"""When something is tried again that the store refused, or that raised what nobody expected."""
LONGEST_TROUBLE_SECONDS = 60.0
"""Each time that a channel fails in a row its pause doubles, up to this."""

_COUNTED = ("requests", "delivered", "failed", "given_up", "gaps", "troubles")
T = TypeVar("T")
logger = logging.getLogger("whimbrel.broker")


class WebhookEngine:
    """Delivers webhooks. `matched`, `changed` and `run` may be called from any thread; the rest runs in its loop."""

    def __init__(
        self,
        settings: Settings,
        log: str,
        store: Store,
        lists: RunSet,
        reader: MessageReader,
        resolve: Resolve | None = None,
    ) -> None:
        self.log = log
        """The id of the log, which is part of the ids of messages."""
        self._store = store
        self._lists = lists
        self._loop = uvloop.new_event_loop()
        self._client = WebhookClient(
            Addresses(settings.webhook_networks, resolve), settings.webhook_seconds, settings.webhook_ca
        )
        origin = settings.webhook_origin or socket.gethostname()
        self.deliverer = Deliverer(settings, origin, log, store, reader, self._client)
        self._watched = WatchedNumbers(store.webhooks.numbers())
        self._channels: dict[str, Channel] = {}
        self._idle: OrderedDict[str, Channel] = OrderedDict()
        self._queues: HostQueues[Channel] = HostQueues()
        self._timed = TimedChannels(self._loop, self._on_due)
        self._unknown: set[int] = set()  # numbers whose subscriptions could not be looked up
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="whimbrel-webhooks", daemon=True)

    def start(self) -> None:
        """Start the thread; what was not delivered when the broker ended is delivered now."""
        self._thread.start()

    def stop(self) -> None:
        """Wait a moment for requests, store what is known, and end the thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop)
            self._thread.join()
        else:
            self._stopping = True
            self._loop.close()

    def matched(self, numbers: NDArray[np.int64]) -> None:
        """Versions of subscriptions have new messages. Costs the pairs, and nothing if nobody has a sink."""
        found = self._watched.among(numbers)
        if found:
            self._call(self._wake_numbers, found)

    def watch(self, id: str, number: int, wake: bool) -> None:
        """Note that a subscription with a sink was created or changed. Unless `wake` is set, it waits for a match."""
        self._watched.add(number)
        self._call(partial(self.wake, id, changed=True) if wake else partial(self._reload, id))

    def changed(self, id: str) -> None:
        """Load a subscription again that ended or has other secrets."""
        self._call(self._reload, id)

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run something in the event loop of webhooks."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    @property
    def delivered(self) -> int:
        """The number of messages that receivers took since the start."""
        return self.deliverer.counts["delivered"]

    def counts(self) -> dict[str, int]:
        """Counts since the start, and how many channels run, queue or wait."""
        counts = {name: self.deliverer.counts[name] for name in _COUNTED}
        phases = [channel.phase for channel in list(self._channels.values())]
        return {
            **counts,
            "subscriptions": len(self._watched),
            "in_flight": phases.count("running"),
            "queued": phases.count("queued"),
            "timed": phases.count("timed"),
        }

    def channel(self, id: str) -> Channel:
        """The channel of a subscription, loaded."""
        channel = self._channels.get(id)
        if channel is None:
            channel = self._channels[id] = self._idle[id] = Channel(id)
        if channel.is_stale and channel.phase != "running":
            self.deliverer.load(channel)
        return channel

    def wake(self, id: str, changed: bool = False) -> None:
        """Give a subscription a turn if it has something to do.

        One that waits for a time goes on waiting, unless it changed.
        """
        channel = self._channels.get(id)
        if channel is None:
            channel = self._channels[id] = Channel(id)
        channel.is_stale |= changed
        if channel.phase == "running":
            channel.is_woken = True
        elif channel.phase == "idle" or (channel.phase == "timed" and changed):
            self._idle.pop(id, None)
            self._queue(channel)
        self._dispatch()

    def _reload(self, id: str) -> None:
        if id in self._channels:
            self.wake(id, changed=True)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        if not self._stopping:
            self._loop.call_soon_threadsafe(function, *arguments)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            beginning = self._loop.create_task(self._begin())
            housekeeping = self._loop.create_task(self._keep_house())
            self._loop.run_forever()
            self._loop.run_until_complete(asyncio.gather(beginning, housekeeping))
            self._loop.run_until_complete(self._finish())
        except Exception:
            logger.exception("webhooks stop: nothing more is delivered until the broker starts again")
        finally:
            self._loop.close()

    async def _begin(self) -> None:
        """Wake the subscriptions that have messages behind their cursor or a delivery to try again."""
        while not self._stopping:
            try:
                waiting = await self._loop.run_in_executor(
                    None, lagging_subscriptions, self._store.webhooks, self._lists
                )
            except Exception:
                self._in_trouble("what waits for webhooks could not be read")
                await asyncio.sleep(TROUBLE_SECONDS)
                continue
            for id in waiting:
                self.wake(id)
            return

    async def _keep_house(self) -> None:
        """Store what deliveries change, and close connections that nobody uses."""
        urgent = self.deliverer.records.urgent
        rounds = itertools.count(1)
        while not self._stopping:
            with suppress(TimeoutError):
                await asyncio.wait_for(urgent.wait(), SAVE_SECONDS)
                await asyncio.sleep(URGENT_SECONDS)
            if not await self._save():
                await asyncio.sleep(TROUBLE_SECONDS)
            if next(rounds) % 100 == 0:
                try:
                    self._client.close_idle(IDLE_SECONDS)
                except Exception:  # whatever it is, cursors must go on to be stored
                    self._in_trouble("idle connections of webhooks could not be closed")

    async def _save(self) -> bool:
        """Store what deliveries changed; False if the store refuses. Then it is kept, to be tried again."""
        try:
            await self.deliverer.records.save()
        except Exception:
            self._in_trouble("cursors and attempts of webhooks could not be stored")
            return False
        return True

    def _in_trouble(self, what: str) -> None:
        """Note what failed; it is tried again. Call it where the exception is handled."""
        self.deliverer.counts["troubles"] += 1
        logger.exception("%s: it is tried again", what)

    def _stop(self) -> None:
        self._stopping = True
        self._loop.stop()

    async def _finish(self) -> None:
        """Let requests end, and store everything."""
        self._timed.stop()
        deadline = monotonic() + STOP_SECONDS
        while self._tasks and monotonic() < deadline:  # some may wait for what they changed to be stored
            if not await self._save():
                break
            await asyncio.wait(self._tasks, timeout=SAVE_SECONDS)
        open_tasks = list(self._tasks)
        for task in open_tasks:
            task.cancel()
        await asyncio.gather(*open_tasks, return_exceptions=True)
        await self._save()
        self._client.close()
        self.deliverer.records.pool.shutdown()
        await self._loop.shutdown_default_executor()

    def _wake_numbers(self, numbers: Sequence[int]) -> None:
        unknown: list[int] = []
        for number in numbers:
            channel = self.deliverer.by_number.get(number)
            if channel is None:
                unknown.append(number)
            else:
                self.wake(channel.id)
        if unknown:
            self._wake_unknown(unknown)

    def _wake_unknown(self, numbers: Sequence[int]) -> None:
        """Wake the channels of numbers that are not loaded. If the store refuses, all of them are tried again later."""
        try:
            ids = dict.fromkeys(self._store.ids_of(numbers).values())
        except Exception:
            self._in_trouble("subscriptions with new messages could not be looked up")
            if not self._unknown:
                self._loop.call_later(TROUBLE_SECONDS, self._look_up_again)
            self._unknown.update(numbers)
            return
        for id in ids:
            self.wake(id)

    def _look_up_again(self) -> None:
        numbers, self._unknown = sorted(self._unknown), set()
        self._wake_unknown(numbers)

    def _queue(self, channel: Channel) -> None:
        """Let a channel wait for its host; if it cannot be loaded, for a time."""
        if channel.is_stale:
            try:
                self.deliverer.load(channel)
            except Exception:
                self._try_later(channel)
                return
        if channel.target is None:
            self._forget(channel)
            return
        channel.phase = "queued"
        self._queues.push(channel.target.url.origin, channel)

    def _dispatch(self) -> None:
        while not self._stopping and len(self._tasks) < IN_FLIGHT and (found := self._queues.pop()) is not None:
            key, channel = found
            channel.phase = "running"
            channel.is_woken = False
            task = self._loop.create_task(self._turns(key, channel))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _turns(self, key: Any, channel: Channel) -> None:
        following: float | None = None
        well: bool | None = None
        try:
            following, well = await self.deliverer.turn(channel)
        except asyncio.CancelledError:
            raise
        except Exception:
            self._try_later(channel)
        else:
            channel.troubles = 0
        self._queues.done(key, well)
        if following is None:
            pass
        elif following == AT_ONCE or (following == IDLE and channel.is_woken) or channel.is_stale:
            self._queue(channel)
        elif following == IDLE:
            self._rest(channel)
        else:
            self._timed.add(channel, following)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.discard(task)
        self._dispatch()

    def _try_later(self, channel: Channel) -> None:
        """A channel's turn failed, or it could not be loaded: it waits, longer each time. Call it in the handler."""
        self._in_trouble(f"the webhook of subscription {channel.id} could not go on")
        pause = min(LONGEST_TROUBLE_SECONDS, TROUBLE_SECONDS * 2**channel.troubles)
        channel.troubles = min(channel.troubles + 1, 10)
        self._timed.add(channel, monotonic() + pause)

    def _rest(self, channel: Channel) -> None:
        """A channel has nothing to do; the ones that rest longest are forgotten."""
        if channel.target is None:
            self._forget(channel)
            return
        channel.phase = "idle"
        channel.buffer = []
        self._idle[channel.id] = channel
        while len(self._idle) > IDLE_CHANNELS:
            self._forget(self._idle.popitem(last=False)[1])

    def _forget(self, channel: Channel) -> None:
        self._channels.pop(channel.id, None)
        self._idle.pop(channel.id, None)
        channel.phase = "idle"
        if channel.target is not None:
            self.deliverer.by_number.pop(channel.target.held.number, None)

    def _on_due(self, channels: list[Channel]) -> None:
        for channel in channels:
            if channel.phase == "timed":
                self._queue(channel)
        self._dispatch()
