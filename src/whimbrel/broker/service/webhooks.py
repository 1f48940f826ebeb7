"""Webhooks on behalf of principals: how they stand, secrets, enabling, tests, dead letters, consent."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from time import time_ns
from typing import Any, TypeVar, cast

import msgspec

from whimbrel.broker.delivery.message_reader import MessageReader
from whimbrel.broker.requests.entries import Change, SinkSecrets, SubscriptionEnd, SubscriptionPut
from whimbrel.broker.requests.errors import Conflict, NotFound
from whimbrel.broker.requests.subscriptions import time_text
from whimbrel.broker.requests.webhook_sinks import HTTP
from whimbrel.broker.service.pending import Pending
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.service.sink_secrets import rotated
from whimbrel.broker.service.subscription_registry import Registry
from whimbrel.broker.store import Attempt, Cursor, Store, StoredSubscription, UndeliveredMessage, WebhookState
from whimbrel.broker.webhooks.channel import Channel
from whimbrel.broker.webhooks.consent import callback_digest, read_rate
from whimbrel.broker.webhooks.delivering import SendAnswer
from whimbrel.broker.webhooks.engine import WebhookEngine
from whimbrel.broker.webhooks.outgoing import Outgoing, compose, message_id
from whimbrel.broker.webhooks.target import WebhookTarget, load_target

T = TypeVar("T")
BULK = 100
"""Changes that may come at once. In a larger import, consent is asked for when something matches, and not now."""


@dataclass(eq=False)
class Webhooks:
    """Answers questions about webhooks, and changes them. Used in the event loop of the broker."""

    _runtime: Runtime
    _registry: Registry
    _secrets: Pending[SinkSecrets | None]
    engine: WebhookEngine
    _store: Store
    _reader: MessageReader

    def folded(self, changes: Sequence[tuple[int, Change]]) -> None:
        """Tell webhooks of changes that the store has applied. Called in the writer of the log."""
        for offset, change in changes:
            if isinstance(change, SubscriptionPut) and change.protocol == HTTP:
                self.engine.watch(change.id, offset, wake=len(changes) <= BULK)
            elif isinstance(change, SubscriptionPut | SubscriptionEnd | SinkSecrets):
                self.engine.changed(change.id)

    def signing_secret(self, id: str) -> str | None:
        """The newest secret, to be shown once."""
        held = self._store.webhooks.secrets(id)
        return None if held is None else held.signing[0].secret

    def state(self, held: StoredSubscription) -> dict[str, object]:
        """How the deliveries of a subscription stand."""
        target = load_target(self._store, held.id)
        state = self.engine.deliverer.records.state(held.id)
        if target is None:
            return {}
        if state is None or state.sink != target.sink:
            state = WebhookState(target.sink)
        has_consent = state.consent == "granted" or target.settings.consent == "waived"
        shown: dict[str, object] = {"state": _state_name(state, has_consent)}
        shown["consent"] = "waived" if target.settings.consent == "waived" else state.consent
        optional = {
            "reason": state.disabled,
            "problem": state.problem,
            "rate": state.rate,
            "attempts": state.attempts or None,
            "failing_since": None if state.failing is None else time_text(state.failing),
            "next_attempt": None if state.due is None else time_text(state.due),
        }
        return shown | {name: value for name, value in optional.items() if value is not None}

    async def rotate(self, id: str, principal: Principal, secret: str | None, keep: int) -> str:
        """Sign with another secret, and return it. The former one signs too for `keep` seconds."""

        def decide(offset: int) -> tuple[list[Change], object]:
            held = self._registry.held(id, principal)
            _check_sink(held)
            made = rotated(self._secrets.newest(id), id, secret, keep, time_ns() // 1_000)
            self._secrets.note(id, offset, made)
            return [made], made.signing[0].secret

        return cast("str", await self._runtime.decide(decide))

    async def enable(self, held: StoredSubscription) -> None:
        """Deliver again: now, whatever the schedule says. Consent that was refused is asked for again."""
        _check_sink(held)

        async def work() -> None:
            channel = self._channel(held.id)
            state = channel.state
            assert state is not None
            consent = "none" if state.consent == "refused" else state.consent
            self.engine.deliverer.set_state(channel, state.reset(disabled=None, consent=consent))
            self.engine.wake(held.id, changed=True)

        await self._in_engine(work())

    async def disable(self, held: StoredSubscription) -> None:
        """Deliver nothing until it is enabled; messages wait in the log."""
        _check_sink(held)

        async def work() -> None:
            channel = self._channel(held.id)
            assert channel.state is not None
            self.engine.deliverer.set_state(channel, channel.state.reset(disabled="by-owner"))

        await self._in_engine(work())

    async def test(self, held: StoredSubscription) -> SendAnswer:
        """Send an event of type `whimbrel.test`, outside of the order."""
        _check_sink(held)
        now = time_ns() // 1_000
        event = {
            "specversion": "1.0", "id": f"test-{now}", "source": "whimbrel", "type": "whimbrel.test",
            "time": time_text(now), "subject": held.id,
        }  # fmt: skip

        async def work() -> SendAnswer:
            channel, target = self._consented(held.id)
            id = message_id("test", target.held.first, str(now), "")
            kind, body = "application/cloudevents+json", msgspec.json.encode(event)
            if target.settings.batch is not None:
                kind, body = "application/cloudevents-batch+json", b"[" + body + b"]"
            return await self.engine.deliverer.send_now(channel, Outgoing(id, kind, body, 1, ""))

        return await self._in_engine(work())

    def attempts(self, held: StoredSubscription, before: int, limit: int) -> list[Attempt]:
        """The newest attempts with numbers below `before`."""
        _check_sink(held)
        return self._store.webhooks.attempts(held.id, before, limit)

    def undelivered(self, held: StoredSubscription, after: int, limit: int) -> list[UndeliveredMessage]:
        """Deliveries that were given up, with numbers above `after`."""
        return self._store.webhooks.undelivered(held.id, after, limit)

    async def redeliver(self, held: StoredSubscription, number: int) -> SendAnswer:
        """Send a delivery that was given up, with its webhook-id; it is forgotten if that works."""
        _check_sink(held)
        found = self._store.webhooks.undelivered(held.id, number - 1, 1)
        if not found or found[0].number != number:
            raise NotFound(f"Expected the number of a dead letter of this subscription, but {number} is none")
        letter = found[0]
        after = Cursor.parse(letter.after)
        messages, _ = await self._runtime.in_thread(self._reader.read, held, after, letter.events)
        if not messages or str(messages[-1].cursor) != letter.until:
            raise NotFound("Expected the events of a dead letter, but the log has them no longer")

        async def work() -> SendAnswer:
            channel, target = self._consented(held.id)
            return await self.engine.deliverer.send_now(channel, compose(self.engine.log, target, messages))

        result = await self._in_engine(work())
        if result.delivered:
            await self._runtime.in_thread(self._store.webhooks.redelivered, number)
        return result

    async def consent(self, secret: str, rate: str | None) -> bool:
        """Note the consent of a receiver that called its callback. False if nobody has asked for it."""

        async def work() -> bool:
            id = self.engine.deliverer.records.by_callback(callback_digest(secret))
            if id is None:
                return False
            channel = self._channel(id)
            given = read_rate(rate or "*")
            if channel.state is None or channel.state.callback != callback_digest(secret) or not given.granted:
                return False
            state = channel.state.reset(consent="granted", rate=given.rate, callback=None, problem=None)
            self.engine.deliverer.set_state(channel, state)
            self.engine.wake(id, changed=True)
            return True

        return await self._in_engine(work())

    def _consented(self, id: str) -> tuple[Channel, WebhookTarget]:
        """The channel of a subscription and its target; Conflict unless the receiver has consented."""
        channel = self._channel(id)
        assert channel.target is not None and channel.state is not None
        if channel.state.consent != "granted" and channel.target.settings.consent != "waived":
            raise Conflict("Expected the consent of the receiver before anything is sent to it")
        return channel, channel.target

    def _channel(self, id: str) -> Channel:
        channel = self.engine.channel(id)
        if channel.target is None:
            raise NotFound("Expected a subscription with a sink, but it has ended")
        return channel

    async def _in_engine(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(self.engine.run(work))


def _check_sink(held: StoredSubscription) -> None:
    if held.protocol != HTTP:
        raise Conflict(f'Expected a subscription with the protocol "HTTP", but its protocol is {held.protocol}')


def _state_name(state: WebhookState, has_consent: bool) -> str:
    if state.disabled is not None:
        return "disabled"
    if not has_consent:
        return "awaiting-consent"
    return "retrying" if state.due is not None else "active"
