"""The broker without HTTP: one data directory, opened, with the parts that work on it.

Methods that wait are coroutines and run in one event loop. Five threads work for it: the loop, the sequencer
(`sequencer.py`), the writer of the log (which also folds what is on disk into the lists and the store), upkeep, which
merges lists, saves the index and ends expired subscriptions, and webhooks. Reads of messages run in a small pool.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from time import monotonic, time_ns
from typing import Any, cast

import numpy as np

from whimbrel.broker.delivery.hub import Hub
from whimbrel.broker.delivery.message_reader import MessageReader
from whimbrel.broker.page.live_feed import Counts, LiveFeed
from whimbrel.broker.page.sessions import Sessions
from whimbrel.broker.publications.rendering import PublicationMessages
from whimbrel.broker.publications.topics import StatefulTopics
from whimbrel.broker.requests.context_schema import load_schema
from whimbrel.broker.requests.entries import (
    SchemaExtension,
    SinkSecrets,
    SubscriptionEnd,
    SubscriptionPut,
    TokenEnd,
    TokenPut,
)
from whimbrel.broker.requests.envelope import Incoming
from whimbrel.broker.requests.errors import BrokerError
from whimbrel.broker.requests.settings import Settings, is_loopback
from whimbrel.broker.requests.subscriptions import read_spec
from whimbrel.broker.sequencing.publishing import LiveIndex, Publishing
from whimbrel.broker.sequencing.request_group import Answer, Publish, Published, RequestGroup, settle_now
from whimbrel.broker.sequencing.sequencer import Sequencer
from whimbrel.broker.service.delivery import Delivery
from whimbrel.broker.service.disk_space import DiskSpace
from whimbrel.broker.service.ephemeral_streams import EphemeralStreams
from whimbrel.broker.service.matches import MatchCommits
from whimbrel.broker.service.opening import match_waiting, open_directory
from whimbrel.broker.service.pending import Pending
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.publications import PublicationService
from whimbrel.broker.service.quotas import Quotas
from whimbrel.broker.service.retention import Retention
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.service.schema_service import SchemaService
from whimbrel.broker.service.spaces import SpaceService
from whimbrel.broker.service.spark_process import SparkProcess
from whimbrel.broker.service.subscription_registry import Registry
from whimbrel.broker.service.subscriptions import Subscriptions
from whimbrel.broker.service.tokens import Tokens
from whimbrel.broker.service.upkeep import Upkeep
from whimbrel.broker.service.webhooks import Webhooks
from whimbrel.broker.store import DeadLetter
from whimbrel.broker.store.sqlite import to_json
from whimbrel.broker.webhooks.engine import WebhookEngine
from whimbrel.log.match_commit import MatchCommit

logger = logging.getLogger("whimbrel.broker")

ENGINE_SECONDS = 60.0
"""Seconds after which an engine outside of the broker that has not asked for work counts as not running."""
DEAD_LETTER_BYTES = 64 << 10
"""Bytes of a refused event that are kept."""


class Broker:
    """One data directory, opened. Use it as `async with Broker(settings) as broker`.

    `tokens`, `subscriptions` and `delivery` are its parts; `messages` reads the messages of a subscription. A
    command that opens the directory of a broker does not `serve`: there is no retention then, and webhooks, for which
    it would need the broker's settings, are not sent.
    """

    def __init__(
        self, settings: Settings, on_failure: Callable[[Exception], None] | None = None, serve: bool = True
    ) -> None:
        self.settings = settings
        self.failure: Exception | None = None
        self.started = monotonic()
        self.published = self.refused = 0
        self.delivered: Callable[[], int] = lambda: 0
        """How many messages were sent to subscribers; set by the metrics."""
        self.on_disk: list[Callable[[RequestGroup], None]] = []
        """Called in the writer of the log with every group that is on disk and folded, in order; they must be quick."""
        self._serve = serve
        self._on_failure = on_failure
        self._closing = False
        schema = None if settings.schema is None else load_schema(settings.schema)
        opened = self._opened = open_directory(Path(settings.data), settings.timestamps, schema)
        self.store, self.log, self.index = opened.store, opened.reader, opened.index
        if settings.engine == "inline":
            match_waiting(opened)
        self.hub = Hub()
        self.sessions = Sessions()
        self.feed = LiveFeed(self._counts, opened.store)
        self.runtime = Runtime()
        self.live = LiveIndex(opened.index, opened.constrained, settings.engine != "inline")
        self.disk = DiskSpace(opened.directory, settings.disk_reserve_bytes)
        self._topics = StatefulTopics(settings, opened.index.timestamps, opened.store)
        self._registry = Registry(self.live, self._topics, opened.store, opened.history, self.disk)
        publishing = Publishing(self.live, opened.ids, opened.watermark, opened.store.origins())
        self.sequencer = Sequencer(
            publishing, opened.writer, opened.ids, self._fold, self._settle, self._fail, self.disk.check, self._topics
        )
        submit = self.runtime.submit = self.sequencer.submit
        self.matches = MatchCommits(self.runtime, opened)
        self.retention = Retention(opened, settings, submit)
        self._upkeep = Upkeep(opened, self.live, self._registry, self.retention, self.disk, submit, self._fail)
        self._make_services()

    def _make_services(self) -> None:
        """Make what acts on behalf of principals."""
        settings, runtime, opened, store = self.settings, self.runtime, self._opened, self._opened.store
        topics, registry, timestamps = self._topics, self._registry, self._opened.index.timestamps
        rendered = PublicationMessages(opened.reader, store, timestamps)
        self.messages = MessageReader(opened.reader, opened.lists, store, opened.history, rendered.renders)
        self.publications = PublicationService(runtime, topics, store, timestamps)
        self.schemas = SchemaService(runtime, opened.index.schema, store, opened.reader.floor)
        self.on_disk.append(self.schemas.on_disk)
        self._upkeep.every_round += [self.publications.expire, self.schemas.announce]
        self.tokens = Tokens(runtime, registry, store, self.hub)
        self._secrets = Pending(store.webhooks.secrets)
        quotas = Quotas(settings, store, opened.index)
        self.subscriptions = Subscriptions(
            runtime, self.live, registry, self.tokens, quotas, self._secrets, store, opened.reader
        )
        engine = WebhookEngine(settings, opened.reader.id, store, opened.lists, self.messages)
        self.webhooks = Webhooks(runtime, registry, self._secrets, engine, store, self.messages)
        self.delivery = Delivery(
            runtime, self.hub, self.messages, self.subscriptions, self.tokens, store, opened.reader
        )
        self.streams = EphemeralStreams(
            runtime, self.live, topics.publications, self.hub, self.subscriptions, quotas, self.tokens, rendered
        )
        self.spaces = SpaceService(runtime, topics.spaces, registry, self.subscriptions, store)
        self.spark: SparkProcess | None = None
        """The job on Spark that matches events, if it is ours; the server starts it."""
        if settings.engine == "spark" and settings.spark_job:
            self.spark = SparkProcess(settings, self.tokens.create_internal("spark-engine", "match"))

    async def __aenter__(self) -> Broker:
        self.runtime.start()
        self.sequencer.start()
        if self._serve:
            self._upkeep.start()
            self.feed.start()
            self.webhooks.engine.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.feed.stop()
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Finish what waits, save index and lists, and close. Without it nothing is lost, but a start takes longer."""
        self._closing = True
        self._upkeep.stop()
        self.sequencer.stop()
        self.webhooks.engine.stop()
        self.runtime.stop()
        self._opened.writer.close()
        if self.failure is None:
            self._upkeep.finish()
        self._opened.close()

    @property
    def engine_state(self) -> str:
        """Whether events are matched: `running`, `starting`, or `missing` if no engine has asked for work lately."""
        if self.settings.engine == "inline" or monotonic() < self.matches.asked + ENGINE_SECONDS:
            return "running"
        return "missing" if self.spark is None else "starting"

    @property
    def ready(self) -> bool:
        """Whether the broker takes requests."""
        return self.failure is None and not self._closing

    @property
    def end(self) -> int:
        """The offset behind the last entry that is on disk and folded."""
        return self._upkeep.end

    @property
    def list_sizes(self) -> tuple[int, int, int]:
        """Runs of match lists, runs of event ids, and ids in memory."""
        return len(self._opened.lists.runs), *self._opened.ids.sizes

    @property
    def needs_tokens(self) -> bool:
        """Whether every caller must have a token: there are some, or the broker listens beyond loopback."""
        return bool(self.tokens.stored) or not is_loopback(self.settings.host)

    async def publish(self, events: list[Incoming], principal: Principal) -> list[Published | BrokerError]:
        """Publish events. Returns when they are on disk, with an offset or an error for each."""
        future = self.runtime.loop.create_future()
        self.sequencer.submit(Publish(events, future, principal.name, principal.tenant, principal.rules))
        return cast("list[Published | BrokerError]", await future)

    def _fold(self, group: RequestGroup) -> None:
        """Apply a group that is on disk to lists, store and parts of the broker. Called in the writer of the log."""
        pairs = group.pairs()
        durable = pairs.numbers >= 0
        end = group.next
        commits = [change for _, change in group.changes if isinstance(change, MatchCommit)]
        brought = [commit.pairs() for commit in commits]
        numbers = np.concatenate([pairs.numbers[durable], *(one[0] for one in brought)])
        self._opened.lists.add(end, numbers, np.concatenate([pairs.offsets[durable], *(one[1] for one in brought)]))
        if group.changes:
            self.store.apply(group.changes, end)
            self._upkeep.changes += sum(
                isinstance(change, SubscriptionPut | SubscriptionEnd) for _, change in group.changes
            )
            if any(isinstance(change, TokenPut | TokenEnd) for _, change in group.changes):
                self.tokens.folded(group.changes)
            for offset, change in group.changes:
                if isinstance(change, SubscriptionPut | SubscriptionEnd):
                    self._registry.folded(offset, change)
                elif isinstance(change, SinkSecrets):
                    self._secrets.folded(change.id, offset)
            self.webhooks.folded(group.changes)
            for commit in commits:
                self.matches.folded(commit)
            if any(isinstance(one, SubscriptionPut | SubscriptionEnd | SchemaExtension) for _, one in group.changes):
                self.matches.changed = end
        if group.refused:
            now = time_ns() // 1000
            letters = [
                DeadLetter(0, now, owner, to_json({"code": error.code, "message": str(error)}), raw[:DEAD_LETTER_BYTES])
                for owner, raw, error in group.refused
            ]
            self.store.add_dead_letters(letters, self.settings.dead_letters)
        self.webhooks.engine.matched(numbers)
        self._upkeep.end = self.matches.end = max(self._upkeep.end, end)
        self.published += len(group.events)
        self.refused += len(group.refused)
        self.feed.observe(pairs)
        if group.changes or len(pairs.numbers):
            self.runtime.call(self._tell, group, pairs)
        for listener in self.on_disk:
            listener(group)
        if group.events and self.settings.engine != "inline":
            self.runtime.call(self.matches.tell)
        if brought:
            self.runtime.call(self.hub.reread, np.unique(numbers))

    def _tell(self, group: RequestGroup, pairs: Any) -> None:
        """Push the messages of a group to open streams. Called in the event loop."""
        for number, change in group.changes:
            if isinstance(change, SubscriptionPut) and self.hub.is_open(change.id):
                self.hub.renumber(change.id, number, read_spec(change.spec).digest)
        self.hub.deliver(pairs)
        for _, change in group.changes:
            if isinstance(change, SubscriptionEnd):
                self.hub.end(change.id, change.reason)

    def _counts(self) -> Counts:
        streams = self.hub.counts()["streams"]
        waiting, end = self.sequencer.waiting[0], self.end
        return Counts(self.published, self.refused, self.delivered(), waiting, streams, len(self.index), end)

    def _settle(self, answers: list[Answer]) -> None:
        if answers:
            self.runtime.call(_settle_open, answers)

    def _fail(self, error: Exception) -> None:
        self.failure = error
        logger.critical("the broker stops: %s", error)
        if self._on_failure is not None:
            self.runtime.call(self._on_failure, error)


def _settle_open(answers: list[Answer]) -> None:
    """Answer the requests whose caller still waits."""
    settle_now([answer for answer in answers if not (isinstance(answer[0], asyncio.Future) and answer[0].done())])
