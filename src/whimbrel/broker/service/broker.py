"""The broker without HTTP: publish, change subscriptions and tokens, read and stream messages.

Methods that wait are coroutines and run in one event loop. Four threads work for it: the loop, the sequencer
(`sequencer.py`), the writer of the log (which also folds what is on disk into the lists and the store), and upkeep,
which merges lists, saves the index and ends expired subscriptions. Reads of messages run in a small pool.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, time_ns
from typing import Any, TypeVar, cast

import msgspec

from whimbrel.broker.delivery.hub import Hub, Stream
from whimbrel.broker.delivery.outbox import Outbox, Policy
from whimbrel.broker.delivery.reader import MessageReader, StoredMessage
from whimbrel.broker.delivery.streaming import Read
from whimbrel.broker.requests.context_schema import load_schema
from whimbrel.broker.requests.entries import Change, SubscriptionEnd, SubscriptionPut, TokenEnd, TokenPut
from whimbrel.broker.requests.envelope import Incoming
from whimbrel.broker.requests.errors import (
    BrokerError,
    Conflict,
    NotFound,
    PreconditionFailed,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unprocessable,
)
from whimbrel.broker.requests.rules import Rules, constrain
from whimbrel.broker.requests.settings import Settings, is_loopback
from whimbrel.broker.requests.subscriptions import (
    SubscriptionRequest,
    entry_of,
    entry_of_text,
    filter_of,
    plain_text,
    read_time,
)
from whimbrel.broker.sequencing.group import Answer, Decide, Publish, Published, RequestGroup, settle_now
from whimbrel.broker.sequencing.publishing import LiveIndex
from whimbrel.broker.sequencing.sequencer import Sequencer
from whimbrel.broker.sequencing.stages import StageTimes
from whimbrel.broker.service.opening import open_directory
from whimbrel.broker.service.principal import ANYBODY, Principal, check_scopes, new_secret, principal_of
from whimbrel.broker.service.registry import Registry
from whimbrel.broker.service.upkeep import Nobody, Upkeep
from whimbrel.broker.store import Cursor, DeadLetter, StoredSubscription
from whimbrel.broker.store.sqlite import to_json
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.filter import Filter

T = TypeVar("T")
logger = logging.getLogger("whimbrel.broker")

DEAD_LETTER_BYTES = 64 << 10
"""Bytes of a refused event that are kept."""


class Broker:
    """One data directory, opened. Use it as `async with Broker(settings) as broker`."""

    def __init__(self, settings: Settings, on_failure: Callable[[Exception], None] | None = None) -> None:
        self.settings = settings
        self.failure: Exception | None = None
        self._on_failure = on_failure
        schema = None if settings.schema is None else load_schema(settings.schema)
        self._opened = open_directory(Path(settings.data), settings.timestamps, schema)
        opened = self._opened
        self.store, self.log, self.index = opened.store, opened.reader, opened.index
        self.hub = Hub()
        self.messages = MessageReader(opened.reader, opened.lists, opened.store, opened.history)
        self.started = monotonic()
        self.published = self.refused = 0
        self.tokens = {token.name: token for token in opened.store.tokens()}
        self._decided_tokens: dict[str, TokenPut | None] = {}  # changes since the start, as the sequencer knows them
        self._live = LiveIndex(opened.index, opened.constrained)
        self._registry = Registry(self._live, opened.store, opened.history)
        self._sequencer = Sequencer(self._live, opened.writer, opened.ids, self._fold, self._settle, self._fail)
        self._upkeep = Upkeep(opened, self._live, self._registry, self._sequencer.submit, self._fail)
        self._threads = ThreadPoolExecutor(4, "whimbrel-reader")
        self._long_work = ThreadPoolExecutor(1, "whimbrel-scan")
        self._closing = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Broker:
        self._loop = asyncio.get_running_loop()
        self._sequencer.start()
        self._upkeep.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Finish what waits, save index and lists, and close. Without it nothing is lost, but a start takes longer."""
        self._closing = True
        self._upkeep.stop()
        self._sequencer.stop()
        self._threads.shutdown()
        self._long_work.shutdown()
        self._opened.writer.close()
        if self.failure is None:
            self._upkeep.finish()
        self._opened.close()

    @property
    def ready(self) -> bool:
        """Whether requests are taken."""
        return self.failure is None and not self._closing

    @property
    def end(self) -> int:
        """The offset behind the last entry that is on disk and folded."""
        return self._upkeep.end

    @property
    def waiting(self) -> tuple[int, int]:
        """Events and bytes that wait for the sequencer."""
        return self._sequencer.waiting

    @property
    def stages(self) -> StageTimes:
        """How long the stages of requests took."""
        return self._sequencer.stages

    @property
    def needs_tokens(self) -> bool:
        """Whether every caller must have a token: there are some, or the broker listens beyond loopback."""
        return bool(self.tokens) or not is_loopback(self.settings.host)

    # Publishing

    async def publish(self, events: list[Incoming], principal: Principal) -> list[Published | BrokerError]:
        """Publish events. Returns when they are on disk, with an offset or an error for each."""
        future = self._future()
        self._sequencer.submit(Publish(events, future, principal.name, principal.tenant, principal.rules))
        return cast("list[Published | BrokerError]", await future)

    # Subscriptions

    async def create(self, request: SubscriptionRequest, body: bytes, principal: Principal) -> StoredSubscription:
        """A new subscription, with an id of its own."""
        put = self._entry(request, body, uuid.uuid4().hex, principal)
        self._check_quota(principal, 1)
        start = await self._start_of(request)

        def decide(offset: int) -> tuple[list[Change], object]:
            self._check_rules(principal.name, put.rules)
            entry = msgspec.structs.replace(put, start=None if start is None or start >= offset else start)
            return [entry], self._registry.admit(offset, offset, entry)

        return cast("StoredSubscription", await self._decide(decide))

    async def replace(
        self, id: str, request: SubscriptionRequest, body: bytes, principal: Principal, if_match: str | None
    ) -> StoredSubscription:
        """Another filter for a subscription: from this offset on it sees what the new one matches.

        The rules are those of its owner, whoever asks.
        """
        owner = self.find(id, principal).owner
        put = self._entry(request, body, id, principal if owner == principal.name else self._owner(owner))

        def decide(offset: int) -> tuple[list[Change], object]:
            held = self._registry.held(id, principal)
            _check_version(held, if_match)
            self._check_rules(owner, put.rules)
            entry = msgspec.structs.replace(put, owner=held.owner, created=held.created, start=held.start)
            made = self._registry.admit(offset, held.first, entry)
            self._live.remove(held.number)
            return [entry], made

        return cast("StoredSubscription", await self._decide(decide))

    async def delete(self, id: str, principal: Principal, if_match: str | None = None) -> None:
        """End a subscription."""

        def decide(offset: int) -> tuple[list[Change], object]:
            held = self._registry.held(id, principal)
            _check_version(held, if_match)
            self._registry.end(offset, held)
            return [SubscriptionEnd(id)], None

        await self._decide(decide)

    async def import_many(
        self, requests: list[tuple[SubscriptionRequest, bytes]], principal: Principal
    ) -> list[StoredSubscription | BrokerError]:
        """Create many subscriptions in one step. An `id` is kept if no other subscription has it."""
        self._check_quota(principal, len(requests))
        entries = await self.in_thread(self._entries, requests, principal)
        given = {request.id for request, _ in requests if request.id is not None}

        def decide(offset: int) -> tuple[list[Change], object]:
            self._check_rules(principal.name, principal.rules)
            return self._registry.admit_many(offset, entries, given)

        return cast("list[StoredSubscription | BrokerError]", await self._decide(decide))

    def find(self, id: str, principal: Principal) -> StoredSubscription:
        """The subscription; NotFound if there is none or it belongs to somebody else."""
        held = self.store.subscription(id)
        if held is None or not (principal.sees_all or held.owner == principal.name):
            raise NotFound(f"Expected the id of a subscription, but {id[:80]!r} is none")
        return held

    def page(self, principal: Principal, after: str, limit: int) -> list[StoredSubscription]:
        """Subscriptions that the principal may see, with ids above `after`."""
        return self.store.subscriptions(after, limit, None if principal.sees_all else principal.name)

    # Messages

    async def pull(
        self, subscription: StoredSubscription, after: Cursor | None, limit: int, wait: float
    ) -> tuple[list[StoredMessage], bool]:
        """Messages behind a cursor; if there are none, wait up to `wait` seconds for one."""
        position = (after or self.messages.position(subscription)).offset
        deadline = monotonic() + wait
        outbox = Outbox("drop-newest", "sse", messages=1)
        waiter = Stream(outbox, subscription.owner)
        if wait > 0:
            self.hub.open(waiter, [subscription.number])
        try:
            while True:
                found, complete = await self.in_thread(self.messages.read, subscription, position, limit)
                if found or (complete and monotonic() >= deadline):
                    return found, complete
                outbox.take()
                if outbox.closed is not None:
                    return found, complete
                if complete and not await outbox.wait(max(0.0, deadline - monotonic())):
                    deadline = 0.0
                if not complete and monotonic() >= deadline:
                    return found, complete
        finally:
            self.hub.close(waiter)

    async def acknowledge(self, subscription: StoredSubscription, cursor: Cursor) -> Cursor:
        """Move the cursor forward. Unprocessable beyond the end of the log."""
        if cursor.offset >= self.end:
            raise Unprocessable(
                f"Expected a cursor below {self.end}, the end of the log, but got {cursor}", "bad-cursor"
            )
        return await self.in_thread(self.store.acknowledge, subscription.id, cursor)

    def open_stream(self, subscription: StoredSubscription, framing: str) -> Stream:
        """A stream of a durable subscription, which replaces a former one. Messages from now on are pushed to it."""
        stream = Stream(Outbox("spill", framing), subscription.owner, subscription.id)
        self.hub.open(stream, [subscription.number])
        return stream

    def reader_of(self, subscription: StoredSubscription) -> Read:
        """A function that reads on from an offset, for a stream."""
        return lambda after, limit: self.in_thread(self.messages.read, subscription, after, limit)

    async def open_ephemeral(self, filter: Filter, principal: Principal, framing: str, policy: Policy) -> Stream:
        """A stream of what a filter matches from now on. It ends with `close_ephemeral`."""
        stream = Stream(Outbox(policy, framing), principal.name)
        is_plain = not principal.rules and filter.text is not None and filter.dialect == "sql"
        text = cast("str", filter.text) if is_plain else str(constrain(filter, principal.rules))

        def decide(_: int) -> tuple[list[Change], object]:
            if stream.outbox.closed is None:
                self._check_rules(principal.name, principal.rules)
                number = self._live.add_ephemeral(text, principal.rules)
                stream.numbers.add(number)
                self._call(self.hub.open, stream, [number])
            return [], None

        try:
            await self._decide(decide)
        except BaseException:  # the caller is gone
            stream.outbox.close("gone")
            self.close_ephemeral(stream)
            raise
        return stream

    def close_ephemeral(self, stream: Stream) -> None:
        """Forget an ephemeral subscription."""
        self.hub.close(stream)

        def decide(_: int) -> tuple[list[Change], object]:
            for number in stream.numbers:
                self._live.remove(number)
            return [], None

        with contextlib.suppress(Unavailable):
            self._sequencer.submit(Decide(decide, Nobody()))

    # Tokens

    async def create_token(
        self, name: str, scopes: Iterable[str], tenant: str = "", rules: dict[str, Any] | None = None
    ) -> str:
        """A new token. The text is returned once; only its digest is stored."""
        token, digest = new_secret(name)
        entry = TokenPut(name, digest, check_scopes(scopes), tenant, rules or {})

        def decide(_: int) -> tuple[list[Change], object]:
            if self._decided(name) is not None:
                raise Conflict(f"Expected a new name, but there is a token {name!r}")
            self._decided_tokens[name] = entry
            return [entry], token

        return cast("str", await self._decide(decide))

    async def change_token(self, name: str, scopes: Iterable[str], tenant: str, rules: dict[str, Any]) -> None:
        """Other rights for a token. Its filters are built anew, and its streams are closed."""
        chosen = check_scopes(scopes)

        def decide(offset: int) -> tuple[list[Change], object]:
            held = self._decided(name)
            if held is None:
                raise NotFound(f"Expected the name of a token, but {name!r} is none")
            self._decided_tokens[name] = changed = TokenPut(name, held.digest, chosen, tenant, rules)
            changes: list[Change] = [changed]
            for subscription in self._registry.owned(name):
                number = offset + len(changes)
                changes.append(self._registry.rebuild(number, subscription, rules))
            return changes, None

        await self._decide(decide)
        self.hub.end_of_owner(name, "token-changed")

    async def revoke_token(self, name: str) -> None:
        """End a token, its subscriptions and its streams."""

        def decide(offset: int) -> tuple[list[Change], object]:
            if self._decided(name) is None:
                raise NotFound(f"Expected the name of a token, but {name!r} is none")
            self._decided_tokens[name] = None
            owned = self._registry.owned(name)
            for subscription in owned:
                self._registry.end(offset, subscription)
            return [TokenEnd(name), *(SubscriptionEnd(one.id, "token-revoked") for one in owned)], None

        await self._decide(decide)
        self.hub.end_of_owner(name, "token-revoked")

    def _decided(self, name: str) -> TokenPut | None:
        """A token as the sequencer knows it, also if its last change is not on disk yet. Only inside `decide`."""
        if name in self._decided_tokens:
            return self._decided_tokens[name]
        token = self.tokens.get(name)
        if token is None:
            return None
        return TokenPut(name, token.digest, token.scopes.split(), token.tenant, msgspec.json.decode(token.rules))

    def _check_rules(self, owner: str, rules: Rules) -> None:
        """Refuse what was prepared under rules that no longer hold. Only inside `decide`."""
        token = self._decided(owner)
        if token is None and owner != ANYBODY.name:
            raise Unauthorized("Expected a token that is known here, but it was revoked")
        if dict(rules) != (token.rules if token is not None else {}):
            raise Conflict("Expected the rules of the token to stay, but they have just changed: try again")

    def _owner(self, name: str) -> Principal:
        """The owner of a subscription, for an admin who changes it."""
        token = self.tokens.get(name)
        return principal_of(token) if token is not None else Principal(name, frozenset())

    async def in_thread(self, function: Callable[..., T], *arguments: object) -> T:
        """Run a blocking read in the pool."""
        assert self._loop is not None
        return await self._loop.run_in_executor(self._threads, function, *arguments)

    async def in_background(self, function: Callable[..., T], *arguments: object) -> T:
        """Run work that takes long, one at a time, so that it holds up nobody's reads."""
        assert self._loop is not None
        return await self._loop.run_in_executor(self._long_work, function, *arguments)

    # Inside the writer of the log, when a group is on disk

    def _fold(self, group: RequestGroup) -> None:
        pairs = group.pairs()
        durable = pairs.numbers >= 0
        end = group.next
        self._opened.lists.add(end, pairs.numbers[durable], pairs.offsets[durable])
        if group.changes:
            self.store.apply(group.changes, end)
            self._upkeep.changes += len(group.changes)
            if any(isinstance(change, TokenPut | TokenEnd) for _, change in group.changes):
                self.tokens = {token.name: token for token in self.store.tokens()}
            for offset, change in group.changes:
                if isinstance(change, SubscriptionPut | SubscriptionEnd):
                    self._registry.folded(offset, change)
        if group.refused:
            now = time_ns() // 1000
            letters = [
                DeadLetter(0, now, owner, to_json({"code": error.code, "message": str(error)}), raw[:DEAD_LETTER_BYTES])
                for owner, raw, error in group.refused
            ]
            self.store.bury(letters, self.settings.dead_letters)
        self._upkeep.end = max(self._upkeep.end, end)
        self.published += len(group.events)
        self.refused += len(group.refused)
        if group.changes or len(pairs.numbers):
            self._call(self._tell, group, pairs)

    def _tell(self, group: RequestGroup, pairs: Any) -> None:
        """In the event loop: push to streams what is on disk now."""
        for number, change in group.changes:
            if isinstance(change, SubscriptionPut):
                self.hub.renumber(change.id, number)
        self.hub.deliver(pairs)
        for _, change in group.changes:
            if isinstance(change, SubscriptionEnd):
                self.hub.end(change.id, change.reason)

    def _settle(self, answers: list[Answer]) -> None:
        if answers:
            self._call(_settle_open, answers)

    def _fail(self, error: Exception) -> None:
        self.failure = error
        logger.critical("the broker stops: %s", error)
        if self._on_failure is not None:
            self._call(self._on_failure, error)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call something in the event loop."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(function, *arguments)

    # Helpers

    def _future(self) -> asyncio.Future[Any]:
        assert self._loop is not None
        return self._loop.create_future()

    def _decide(self, decide: Callable[[int], tuple[list[Change], object]]) -> Awaitable[Any]:
        future = self._future()
        self._sequencer.submit(Decide(decide, future))
        return future

    def _entry(self, request: SubscriptionRequest, body: bytes, id: str, principal: Principal) -> SubscriptionPut:
        filter = filter_of(request, principal.rules, self.index.schema)
        return entry_of(request, body, id, principal.name, filter, principal.rules, time_ns() // 1000)

    def _entries(
        self, requests: list[tuple[SubscriptionRequest, bytes]], principal: Principal
    ) -> list[SubscriptionPut | BrokerError]:
        """The entries of many requests. Plain texts are not parsed here: the index does that for all at once."""
        made: list[SubscriptionPut | BrokerError] = []
        now = time_ns() // 1000
        for request, body in requests:
            id = request.id or uuid.uuid4().hex
            try:
                text = plain_text(request)
                if text is not None and not principal.rules:
                    entry = entry_of_text(request, body, id, principal.name, text, principal.rules, now)
                else:
                    entry = self._entry(request, body, id, principal)
                made.append(entry)
            except BrokerError as error:
                made.append(error)
            except WhimbrelError as error:
                made.append(Unprocessable(str(error), "invalid-filter"))
        return made

    def _check_quota(self, principal: Principal, more: int) -> None:
        if self.store.count_subscriptions(principal.name) + more > self.settings.subscriptions_per_token:
            raise TooManyRequests(
                f"Expected at most {self.settings.subscriptions_per_token:,} subscriptions of {principal.name!r}", 60
            )

    async def _start_of(self, request: SubscriptionRequest) -> int | None:
        """The first offset that a new subscription may see; None for only what comes after it."""
        start = request.start
        if start is None or start == "now":
            return None
        if start == "beginning":
            return self.log.floor
        if isinstance(start, int):
            if not self.log.floor <= start <= self.end:
                raise Unprocessable(
                    f"Expected an offset from {self.log.floor} to {self.end}, but got {start} - at $.start",
                    "bad-offset",
                )
            return start
        return await self.in_thread(self._offset_at, read_time(start, "$.start"))

    def _offset_at(self, time: int) -> int:
        """The first entry that was appended at `time` or later."""
        low, high = self.log.bounds
        while low < high:
            middle = (low + high) // 2
            if self.log.pick([middle])[0][1] < time:
                low = middle + 1
            else:
                high = middle
        return low


def _settle_open(answers: list[Answer]) -> None:
    """Answer the requests whose caller still waits."""
    settle_now([answer for answer in answers if not (isinstance(answer[0], asyncio.Future) and answer[0].done())])


def _check_version(held: StoredSubscription, if_match: str | None) -> None:
    if if_match is not None and if_match not in ("*", str(held.number)):
        raise PreconditionFailed(f'Expected version "{held.number}", but If-Match says {if_match[:80]}')
