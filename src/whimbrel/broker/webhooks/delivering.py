"""One turn of a channel: ask for consent if there is none, send the next request, and note what became of it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass
from time import monotonic

import msgspec

from whimbrel.broker.delivery.message_reader import MessageReader, StoredMessage
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.store import Attempt, Store, UndeliveredMessage, WebhookState
from whimbrel.broker.webhooks.channel import AT_ONCE, BOOT, IDLE, Channel, moment_of
from whimbrel.broker.webhooks.connection import HttpResponse
from whimbrel.broker.webhooks.consent import new_callback, read_consent
from whimbrel.broker.webhooks.http_client import WebhookClient
from whimbrel.broker.webhooks.outgoing import Outgoing, compose, options, post
from whimbrel.broker.webhooks.planning import RequestPlanner
from whimbrel.broker.webhooks.records import WebhookRecords, now_us
from whimbrel.broker.webhooks.retries import pause_before, read_retry_after, verdict_of
from whimbrel.broker.webhooks.target import WebhookTarget, load_target
from whimbrel.model.errors import WhimbrelError

BODIES_BYTES = 128 << 20
"""Bytes of all requests that are being sent; a turn waits while there are more."""
SLOW_SECONDS = 5.0
"""A host that takes longer to answer gets a smaller share."""
_CONSENT = Outgoing("consent", "", b"", 0, "")  # what an attempt to ask for consent is noted as

logger = logging.getLogger("whimbrel.broker")


class SendAnswer(msgspec.Struct, omit_defaults=True):
    """What a receiver said to a request outside of the order: `delivered` if that was 2xx."""

    delivered: bool
    seconds: float
    status: int | None = None
    problem: str | None = None


@dataclass(eq=False)
class Deliverer:
    """Sends the messages of channels. Used in the event loop of webhooks.

    Receivers know the broker by its `origin`; `log` is the id of its log, which is part of the ids of messages.
    """

    _settings: Settings
    _origin: str
    _log: str
    _store: Store
    _reader: MessageReader
    _client: WebhookClient

    def __post_init__(self) -> None:
        self.records = WebhookRecords(self._store.webhooks)
        self.counts: Counter[str] = Counter()
        self.by_number: dict[int, Channel] = {}
        """The channels that are loaded, by the numbers of their subscriptions."""
        self._planner = RequestPlanner(self._reader, self.records, self.counts)
        self._sending = 0  # bytes
        self._sent = asyncio.Event()

    def load(self, channel: Channel) -> None:
        """Read what the store says about a channel. Its target is None if there is nothing to deliver to.

        It stays stale if that fails.
        """
        if channel.target is not None:
            self.by_number.pop(channel.target.held.number, None)
            channel.target = None
        channel.buffer = []
        target = load_target(self._store, channel.id)
        if target is not None:
            state = self.records.state(channel.id)
            # Consent and failures belong to a sink; another one starts afresh.
            channel.state = state if state is not None and state.sink == target.sink else WebhookState(target.sink)
            if channel.state.due is not None and channel.state.boot != BOOT:
                moment = moment_of(channel.state.due)
                self.set_state(channel, channel.state._replace(moment=moment, boot=BOOT))
            stored = self._reader.position(target.held)
            newer = self.records.cursor(channel.id)
            channel.position = stored if newer is None else max(stored, newer, key=lambda cursor: cursor.place)
            self.by_number[target.held.number] = channel
        channel.target = target
        channel.is_stale = False

    async def turn(self, channel: Channel) -> tuple[float, bool | None]:
        """Ask for consent or send the next request. Return when the channel wants its next turn, and whether the host
        did well: it answered in time and took the request. None if it was not asked.
        """
        if channel.is_stale:
            self.load(channel)
        target, state = channel.target, channel.state
        if target is None or state is None or state.disabled is not None:
            return IDLE, None
        due = max(state.moment or 0.0, channel.paced)
        if due > monotonic():
            return due, None
        if state.consent != "granted" and target.settings.consent != "waived":
            if state.consent == "refused":
                return IDLE, None
            return await self._ask_consent(channel, target, state)
        while self._sending > BODIES_BYTES:
            self._sent.clear()
            await self._sent.wait()
        messages, wait = await self._planner.next_messages(channel, target)
        if not messages:
            return wait, None
        outgoing = compose(self._log, target, messages)
        return await self._send(channel, target, state, messages, outgoing)

    async def _ask_consent(
        self, channel: Channel, target: WebhookTarget, state: WebhookState
    ) -> tuple[float, bool | None]:
        """The handshake. Without consent nothing is sent until it is asked for again, or given by the callback."""
        callback, digest = new_callback(self._settings.public_url)
        # The callback may be called before the receiver answers.
        self.set_state(channel, state._replace(callback=digest))
        began = monotonic()
        answer, problem = await self._request(target, options(target, self._origin, callback))
        assert channel.state is not None
        state = channel.state
        if state.consent == "granted":  # by the callback, meanwhile
            return AT_ONCE, True
        if answer is None or answer.status in (429, 502, 503, 504):
            self._note(channel, _CONSENT, answer, problem, began)
            self._fail(channel, target, state, answer, problem or f"status {answer.status if answer else ''}", [])
            return AT_ONCE, False
        consent = read_consent(answer, self._origin, target.settings.rate)
        self._note(channel, _CONSENT, answer, consent.problem, began)
        decided = state.reset(
            consent="granted" if consent.granted else "refused",
            rate=consent.rate,
            callback=None if consent.granted else digest,
            problem=consent.problem,
        )
        self.set_state(channel, decided)
        return AT_ONCE, True

    async def _send(
        self,
        channel: Channel,
        target: WebhookTarget,
        state: WebhookState,
        messages: list[StoredMessage],
        outgoing: Outgoing,
    ) -> tuple[float, bool | None]:
        began = monotonic()
        size = len(outgoing.body)
        self._sending += size
        try:
            answer, problem = await self._request(target, post(target, outgoing, self._origin, now_us()))
        finally:
            self._sending -= size
            self._sent.set()
        took = monotonic() - began
        verdict = "failed" if answer is None else verdict_of(answer.status)
        if state.rate is not None:
            channel.paced = monotonic() + 60 / state.rate
        well = verdict == "delivered" and took < SLOW_SECONDS
        if channel.is_stale:  # it was changed meanwhile: what is held here may be about another sink
            self.load(channel)
        if channel.target is None or channel.state is None or channel.target.sink != target.sink:
            return AT_ONCE, well
        state = channel.state  # it may have been disabled meanwhile
        if answer is not None and verdict != "delivered":
            problem = f"Expected a status of 2xx, but got {answer.status}"
        self._note(channel, outgoing, answer, problem, began)
        if verdict == "delivered":
            self.counts["delivered"] += len(messages)
            self._advance(channel, messages)
            if state.attempts or state.problem is not None:
                self.set_state(channel, state.reset(problem=None))
        elif state.disabled is None and verdict == "failed":
            self._fail(channel, target, state, answer, problem or "", messages)
        elif state.disabled is None:
            self._disable(channel, state, verdict, problem or "")
        return AT_ONCE, well

    def set_state(self, channel: Channel, state: WebhookState) -> None:
        """Set how the deliveries of a channel stand, to be stored soon."""
        channel.state = state
        self.records.set_state(channel.id, state)

    def _advance(self, channel: Channel, messages: list[StoredMessage]) -> None:
        channel.position = messages[-1].cursor
        self.records.move(channel.id, channel.position)
        channel.buffer = [one for one in channel.buffer if one.cursor.place > channel.position.place]

    def _fail(
        self, channel: Channel, target: WebhookTarget, state: WebhookState, answer: HttpResponse | None, problem: str,
        messages: list[StoredMessage],
    ) -> None:  # fmt: skip
        """Try again later, or give up when the schedule is through."""
        self.counts["failed"] += 1
        now = now_us()
        asked = None if answer is None else read_retry_after(answer.headers.get("retry-after"), now / 1e6)
        attempts = state.attempts + 1
        pause = pause_before(attempts, self._settings.webhook_schedule, asked)
        if pause is None:
            if messages:
                outgoing = compose(self._log, target, messages)
                self.records.given_up(
                    UndeliveredMessage(
                        0, channel.id, now, outgoing.id, str(channel.position), outgoing.cursor, len(messages),
                        attempts, problem,
                    )
                )  # fmt: skip
                self._advance(channel, messages)
                self.counts["given_up"] += len(messages)
            self._disable(channel, state, "failing", problem)
            return
        channel.buffer = []
        failing, due, moment = state.failing or now, now + int(pause * 1e6), monotonic() + pause
        self.set_state(
            channel,
            state._replace(attempts=attempts, failing=failing, due=due, problem=problem, moment=moment, boot=BOOT),
        )

    def _disable(self, channel: Channel, state: WebhookState, reason: str, problem: str) -> None:
        logger.warning("the webhook of subscription %s is disabled: %s (%s)", channel.id, reason, problem)
        channel.buffer = []
        self.set_state(channel, state.reset(disabled=reason, problem=problem))

    async def _request(self, target: WebhookTarget, request: bytes) -> tuple[HttpResponse | None, str | None]:
        """The answer, or the problem if none came."""
        try:
            return await self._client.request(target.url, request), None
        except WhimbrelError as error:
            return None, str(error)

    def _note(
        self, channel: Channel, outgoing: Outgoing, answer: HttpResponse | None, problem: str | None, began: float
    ) -> None:
        attempts = 0 if channel.state is None else channel.state.attempts
        self.counts["requests"] += 1
        self.records.attempted(
            Attempt(
                0, channel.id, now_us(), outgoing.id, outgoing.cursor, outgoing.events, attempts + 1,
                None if answer is None else answer.status, round(monotonic() - began, 4), problem,
            )
        )  # fmt: skip

    async def send_now(self, channel: Channel, outgoing: Outgoing) -> SendAnswer:
        """Send something outside of the order, and note the attempt: a test, or a delivery that was given up."""
        assert channel.target is not None
        began = monotonic()
        answer, problem = await self._request(channel.target, post(channel.target, outgoing, self._origin, now_us()))
        if answer is not None and verdict_of(answer.status) != "delivered":
            problem = f"Expected a status of 2xx, but got {answer.status}"
        self._note(channel, outgoing, answer, problem, began)
        status = None if answer is None else answer.status
        return SendAnswer(problem is None, round(monotonic() - began, 4), status, problem)
