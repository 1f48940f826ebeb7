"""Publications with a key: transitions as Filter.matches on merged states says, in one order, also after a restart."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.broker.inside import ANYBODY, in_one_group, opened
from tests.broker.reference_topic import Message, ReferenceTopic
from whimbrel.broker.publications.tenant_states import TenantStates
from whimbrel.broker.publications.update_requests import UpdateKind, merged, read_update
from whimbrel.broker.requests.errors import BrokerError, Forbidden, InternalError, NotFound, TooManyRequests
from whimbrel.broker.requests.subscriptions import read_request
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal
from whimbrel.broker.store import StoredSubscription
from whimbrel.log.matched_numbers import MatchedNumbers

KEYS = ("a", "b", "c", "d", "taxi 7")
FILTERS = ("x < 5", "x BETWEEN 3 AND 8 AND color = 'red'", "color != 'red'", "x IS NULL", "tags CONTAINS 'far'", "TRUE")


async def update(
    broker: Broker, *asked: tuple[str, str, dict[str, Any]], by: Principal = ANYBODY
) -> list[Published | BrokerError]:
    updates = [read_update(key, UpdateKind(kind), msgspec.json.encode(content), None) for key, kind, content in asked]
    return await broker.publications.update(updates, by)


async def subscribe(broker: Broker, id: str | None = None, by: Principal = ANYBODY, **asked: Any) -> StoredSubscription:
    body = msgspec.json.encode({"on": "publications", **asked})
    request = read_request(body), body
    if id is None:
        return await broker.subscriptions.create(request, by)
    return await broker.subscriptions.replace(id, request, by)


async def messages(broker: Broker, id: str, by: Principal = ANYBODY, page: int = 3) -> list[list[Message]]:
    """All messages of a subscription, those of one entry together."""
    held = broker.subscriptions.find(id, by)
    position = broker.messages.position(held)
    found: list[tuple[int, Message]] = []
    while True:
        read, _ = await broker.runtime.in_thread(broker.messages.read, held, position, page)
        if not read:
            break
        for message in read:
            event = msgspec.json.decode(message.event)
            assert event["id"] == f"{message.cursor}-{event['type'].removeprefix('whimbrel.')}"
            kind = event["type"].removeprefix("whimbrel.")
            found.append((message.offset, (kind, event["subject"], event.get("data"))))
        position = read[-1].cursor
    return [[message for _, message in group] for _, group in itertools.groupby(found, lambda one: one[0])]


def ordered(told: list[list[Message]]) -> list[list[Message]]:
    return [sorted(group, key=repr) for group in told]


class Walk:
    """Random steps through a broker and the reference."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.reference = ReferenceTopic()

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"x": self.chance.randrange(12)}
        if self.chance.random() < 0.7:
            state["color"] = self.chance.choice(("red", "blue"))
        if self.chance.random() < 0.5:
            state["tags"] = self.chance.sample(["far", "old", "new"], 2)
        return state

    def options(self) -> dict[str, Any]:
        asked: dict[str, Any] = {"filter": self.chance.choice(FILTERS), "leave": self.chance.random() < 0.6}
        if self.chance.random() < 0.3:
            asked["outer"] = self.chance.choice(("x < 9", "TRUE", "color = 'blue'"))
        if self.chance.random() < 0.3:
            asked["dwell"] = self.chance.choice((1.0, 5.0))
        return asked

    async def steps(self, broker: Broker, count: int) -> None:
        broker.publications.topics.clock = lambda: self.reference.time
        for _ in range(count):
            await self.step(broker)

    async def step(self, broker: Broker) -> None:
        choice = self.chance.random()
        ids = list(self.reference.subscriptions)
        if choice < 0.6:
            await self.update(broker)
        elif choice < 0.75 or not ids:
            asked = self.options()
            made = await subscribe(broker, **asked)
            self.reference.subscribe(made.id, **asked)
        elif choice < 0.85:
            id, asked = self.chance.choice(ids), self.options()
            await subscribe(broker, id, **asked)
            self.reference.subscribe(id, **asked)
        elif choice < 0.9:
            id = self.chance.choice(ids)
            await self.check_one(broker, id)
            await broker.subscriptions.delete(id, ANYBODY)
            self.reference.unsubscribe(id)
        else:
            self.reference.wait(self.chance.choice((0.5, 2.0, 6.0)))
            broker.publications.expire()
            await update(broker)  # wait until the sequencer has done it

    async def update(self, broker: Broker) -> None:
        asked: list[tuple[str, str, dict[str, Any]]] = []
        for _ in range(self.chance.choice((1, 1, 4))):
            kind = self.chance.choice(("put", "put", "patch", "delete"))
            content = self.state() if kind == "put" else {} if kind == "delete" else self.patch()
            asked.append((self.chance.choice(KEYS), kind, content))
        results = await update(broker, *asked)
        placed = [(one.offset, each) for one, each in zip(results, asked, strict=True) if isinstance(one, Published)]
        for _, (key, kind, content) in sorted(placed, key=lambda one: one[0]):
            if kind == "put":
                self.reference.put(key, content)
            elif kind == "patch":
                assert key in self.reference.states
                self.reference.patch(key, content)
            else:
                assert key in self.reference.states
                self.reference.delete(key)

    def patch(self) -> dict[str, Any]:
        return {name: None if self.chance.random() < 0.3 else value for name, value in self.state().items()}

    async def check(self, broker: Broker) -> None:
        for id in self.reference.subscriptions:
            await self.check_one(broker, id)
        found, after = broker.publications.page(ANYBODY, "", 1000)
        assert after is None
        assert {one.key: msgspec.json.decode(one.state) for one in found} == self.reference.states

    async def check_one(self, broker: Broker, id: str) -> None:
        found = ordered(await messages(broker, id))
        assert found == ordered(self.reference.subscriptions[id].told), self.reference.subscriptions[id]


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(3, 30))])
def test_transitions_are_those_of_the_reference_also_after_restarts(seed: int, tmp_path: Path) -> None:
    async def work() -> None:
        walk = Walk(seed)
        for _ in range(3):
            async with opened(tmp_path) as broker:
                await walk.steps(broker, 25)
                await walk.check(broker)

    asyncio.run(work())


def test_a_merge_patch_keeps_the_text_of_what_it_does_not_name() -> None:
    state = b'{"price": 1.50, "big": 123456789012345678901234567890, "deep": {"a": 1, "b": [1, {"c": null}]}}'
    assert merged(state, b'{"deep": {"a": null}}') == (
        b'{"price":1.50,"big":123456789012345678901234567890,"deep":{"b":[1, {"c": null}]}}'
    )
    assert merged(b'{"a": 1}', b'{"a": {"b": null, "c": {"d": null}}}') == b'{"a":{"c":{}}}'


def test_a_token_writes_and_sees_only_what_its_rules_allow(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            await broker.tokens.create("seven", ["publish", "subscribe"], "", {"tenant": 7})
            seven = Principal("seven", frozenset({"publish", "subscribe"}), "", {"tenant": 7})
            await update(broker, ("a", "put", {"tenant": 7, "x": 1}), ("b", "put", {"tenant": 8, "x": 1}))
            (wrong,) = await update(broker, ("c", "put", {"tenant": 8}), by=seven)
            assert isinstance(wrong, Forbidden)
            (taken,) = await update(broker, ("b", "put", {"tenant": 7}), by=seven)
            assert isinstance(taken, Forbidden)
            (hidden,) = await update(broker, ("b", "delete", {}), by=seven)
            assert isinstance(hidden, NotFound)
            assert [one.key for one in broker.publications.page(seven, "", 10)[0]] == ["a"]
            with pytest.raises(NotFound):
                broker.publications.find("b", seven)
            mine = await subscribe(broker, by=seven, filter="x < 5", leave=True)
            await update(broker, ("a", "patch", {"tenant": 8}))  # its new state is somebody else's
            assert await messages(broker, mine.id, seven) == [
                [("enter", "a", {"tenant": 7, "x": 1})],
                [("leave", "a", None)],
            ]

    asyncio.run(work())


def test_tenants_have_keys_of_their_own_and_hear_of_their_own(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            one, other = (Principal(name, frozenset({"admin"}), name) for name in ("one", "other"))
            await update(broker, ("a", "put", {"x": 1}), by=one)
            await update(broker, ("a", "put", {"x": 2}), by=other)
            assert broker.publications.find("a", one).state == b'{"x":1}'
            for who in (one, other):
                await broker.tokens.create(who.name, ["admin"], who.name)
            heard = await subscribe(broker, by=one, filter="TRUE")
            await update(broker, ("b", "put", {"x": 3}), by=other)
            await update(broker, ("b", "put", {"x": 4}), by=one)
            assert await messages(broker, heard.id, one) == [[("enter", "a", {"x": 1})], [("enter", "b", {"x": 4})]]

    asyncio.run(work())


def test_limits_of_publications_are_kept(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path, publications_per_tenant=2, publication_bytes_per_tenant=100) as broker:
            first = await update(broker, *((key, "put", {"x": 1}) for key in "abc"))
            assert [type(one) for one in first] == [Published, Published, TooManyRequests]
            (large,) = await update(broker, ("a", "put", {"x": "y" * 100}))
            assert isinstance(large, TooManyRequests)
            again = await update(broker, ("a", "delete", {}), ("c", "put", {"x": 1}))
            assert [type(one) for one in again] == [Published, Published]

    asyncio.run(work())


def test_messages_can_be_read_one_at_a_time(tmp_path: Path) -> None:
    """A cursor behind the last message of an entry with several does not hold up what follows."""

    async def work() -> None:
        async with opened(tmp_path) as broker:
            await update(broker, *((key, "put", {"x": 1}) for key in KEYS))
            held = await subscribe(broker, filter="x < 5", leave=True)
            await update(broker, ("a", "put", {"x": 9}), ("b", "delete", {}))
            found = await messages(broker, held.id, page=1)
            assert found == await messages(broker, held.id, page=100)
            assert [len(group) for group in found] == [len(KEYS), 1, 1]

    asyncio.run(work())


def test_an_update_that_cannot_be_read_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    match = TenantStates.match

    def fail(self: TenantStates, states: list[bytes]) -> MatchedNumbers:
        if any(b"bad" in state for state in states):
            raise RuntimeError("a mistake")
        return match(self, states)

    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, filter="x > 0")
            monkeypatch.setattr(TenantStates, "match", fail)
            asked = [("a", "put", {"x": 1}), ("b", "put", {"x": "bad"}), ("c", "put", {"x": 2})]
            results = await update(broker, *asked)
            assert isinstance(results[1], InternalError) and "a mistake" in str(results[1])
            assert [results[0], results[2]] == [Published(1), Published(2)]
            told = await messages(broker, held.id)
            assert ordered(told) == [[("enter", "a", {"x": 1})], [("enter", "c", {"x": 2})]]
            assert broker.ready

    asyncio.run(work())


@pytest.mark.parametrize("options", [{"dwell": 1.0}, {"outer": "x < 9"}, {}], ids=["dwell", "outer", "plain"])
def test_a_subscription_may_be_replaced_and_ended_in_one_group(tmp_path: Path, options: dict[str, Any]) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            await update(broker, ("a", "put", {"x": 1}))
            id = (await subscribe(broker, filter="x > 5")).id
            put, end = subscribe(broker, id, filter="x < 5", **options), broker.subscriptions.delete(id, ANYBODY)
            results = await in_one_group(broker, put, end)
            assert isinstance(results[0], StoredSubscription) and results[1] is None
            assert broker.ready and broker.store.subscription(id) is None
            other = await subscribe(broker, filter="x < 5", **options)
            assert await messages(broker, other.id) == [[("enter", "a", {"x": 1})]]

    asyncio.run(work())
