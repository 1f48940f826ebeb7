"""Subject spaces through the broker: the five operations, as a plain reference says, also after restarts."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.broker.inside import ANYBODY, opened
from tests.broker.reference_topic import ReferenceRegion, ReferenceTopic
from tests.broker.test_publications import messages, ordered, update
from whimbrel.broker.publications.region_bodies import Regions, read_regions
from whimbrel.broker.publications.update_requests import UpdateKind, read_update
from whimbrel.broker.requests.errors import (
    BrokerError,
    Conflict,
    Forbidden,
    InternalError,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unprocessable,
)
from whimbrel.broker.requests.subscriptions import read_request
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal

DIMENSIONS = ("x", "y")


async def change(
    broker: Broker, key: str, kind: str, content: Any = None, by: Principal = ANYBODY, space: str = "map"
) -> Published | BrokerError:
    asked = read_update(key, UpdateKind(kind), msgspec.json.encode(content), None)
    (result,) = await broker.publications.update([asked], by, space)
    return result


async def subscribe(broker: Broker, id: str, by: Principal = ANYBODY, **asked: Any) -> None:
    request = read_request(msgspec.json.encode(asked), "spaces/map")
    await broker.spaces.subscribe("map", id, request, by, None)


class SpaceWalk:
    """Random steps through a space and the reference. Spans have whole ends, so that text and numbers say the same."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.reference = ReferenceTopic()
        self.made = 0

    def spans(self) -> dict[str, list[int]]:
        names = self.chance.choice((("x",), ("y",), DIMENSIONS))
        lows = {name: self.chance.randrange(20) for name in names}
        return {name: [low, low + self.chance.choice((0, 1, 5))] for name, low in lows.items()}

    def start(self, broker: Broker) -> None:
        broker.publications.topics.clock = lambda: self.reference.time

    async def steps(self, broker: Broker, count: int) -> None:
        for _ in range(count):
            await self.step(broker)

    async def step(self, broker: Broker) -> None:
        choice, key = self.chance.random(), self.chance.choice("abcde")
        ids = list(self.reference.subscriptions)
        if choice < 0.4:
            content = {"regions": [self.spans()]}
            assert isinstance(await change(broker, key, "put", content), Published)
            self.reference.put(key, content)
        elif choice < 0.55:
            await self.patch(broker, key)
        elif choice < 0.6:
            done = await change(broker, key, "delete")
            assert isinstance(done, Published) == (key in self.reference.states)
            self.reference.delete(key)
        elif choice < 0.85 or not ids:
            await self.subscribe(broker, self.chance.choice(ids) if ids and choice < 0.7 else None)
        elif choice < 0.9:
            await broker.subscriptions.delete(ids[0], ANYBODY)
            self.reference.unsubscribe(ids[0])
        else:
            self.reference.wait(self.chance.choice((0.5, 2.0, 6.0)))
            broker.publications.expire()
            await update(broker)  # wait until the sequencer has done it

    async def patch(self, broker: Broker, key: str) -> None:
        changed = self.spans()
        done = await change(broker, key, "patch", {"change": changed})
        assert isinstance(done, Published) == (key in self.reference.states)
        if isinstance(done, Published):
            self.reference.put(key, {"regions": [{**self.reference.states[key]["regions"][0], **changed}]})

    async def subscribe(self, broker: Broker, id: str | None) -> None:
        """A new subscription, or other regions for one; its options stay."""
        known = self.reference.subscriptions.get(id or "")
        spans = self.spans()
        if isinstance(known, ReferenceRegion):
            leave, margins, dwell = known.leave, known.margins, known.dwell
        else:
            leave = self.chance.random() < 0.6
            margins = {"x": 2.0} if self.chance.random() < 0.3 else {}
            dwell = self.chance.choice((0.0, 0.0, 1.0, 5.0))
        self.made += 1
        name = id or f"zone-{self.made}"
        await subscribe(broker, name, regions=[spans], leave=leave, hysteresis=margins, dwell=dwell)
        bounds = {dimension: (float(low), float(high)) for dimension, (low, high) in spans.items()}
        self.reference.add(name, ReferenceRegion("", leave, None, dwell, spans=bounds, margins=margins))

    async def check(self, broker: Broker) -> None:
        for id, subscription in self.reference.subscriptions.items():
            assert ordered(await messages(broker, id)) == ordered(subscription.told), (id, subscription)
        found, _ = broker.publications.page(ANYBODY, "", 1000, "map")
        assert {one.key: msgspec.json.decode(one.state) for one in found} == self.reference.states


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 20))])
def test_transitions_are_those_of_the_reference_also_after_restarts(seed: int, tmp_path: Path) -> None:
    async def work() -> None:
        walk = SpaceWalk(seed)
        for round in range(3):
            async with opened(tmp_path) as broker:
                walk.start(broker)
                if not round:
                    await broker.spaces.define("map", {"x": "number", "y": "number"}, ANYBODY)
                await walk.steps(broker, 25)
                await walk.check(broker)

    asyncio.run(work())


def test_a_space_belongs_to_one_tenant_and_rules_hold_in_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            one, other = (Principal(name, frozenset({"admin"}), name) for name in ("one", "other"))
            await broker.spaces.define("map", {"x": "number", "y": "number"}, one)
            await broker.spaces.define("map", {"x": "number", "y": "number"}, one)
            with pytest.raises(Conflict):
                await broker.spaces.define("map", {"x": "number"}, one)
            with pytest.raises(NotFound):
                broker.spaces.find_space("map", other)
            assert isinstance(await change(broker, "a", "put", {"regions": [{"x": 1}]}, other), NotFound)
            bound = Principal("bound", frozenset({"publish"}), "one", {"y": 3})
            assert isinstance(await change(broker, "b", "put", {"regions": [{"x": 1}]}, bound), Published)
            assert broker.publications.find("b", one, "map").state == b'{"regions":[{"x":1,"y":3}]}'
            assert isinstance(await change(broker, "c", "put", {"regions": [{"x": 1, "y": 4}]}, bound), Forbidden)
            assert isinstance(await change(broker, "d", "put", {"regions": [{"x": 1}]}, one), Published)
            assert isinstance(await change(broker, "d", "put", {"regions": [{"x": 2}]}, bound), Forbidden)
            assert isinstance(await change(broker, "d", "delete", None, bound), NotFound)
            with pytest.raises(NotFound):
                broker.publications.find("d", bound, "map")
            assert [found.key for found in broker.publications.page(bound, "", 10, "map")[0]] == ["b"]
            strange = Principal("strange", frozenset({"publish"}), "one", {"z": 3})
            assert isinstance(await change(broker, "e", "put", {"regions": [{"x": 1}]}, strange), Forbidden)
            with pytest.raises(Forbidden):
                await broker.spaces.drop("map", bound)

    asyncio.run(work())


def test_a_subscription_that_is_put_twice_at_once_is_there_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            await broker.spaces.define("map", {"x": "number", "y": "number"}, ANYBODY)
            await asyncio.gather(*(subscribe(broker, "zone", regions=[{"x": [0, 9]}]) for _ in range(3)))
            await change(broker, "a", "put", {"regions": [{"x": 1}]})
            assert len(await messages(broker, "zone")) == 1

    asyncio.run(work())


def test_limits_of_spaces_are_kept(tmp_path: Path) -> None:
    async def work() -> None:
        limits = {"spaces_per_tenant": 1, "dimensions_per_space": 2, "regions_per_object": 2}
        async with opened(tmp_path, **limits, publications_per_tenant=2) as broker:
            with pytest.raises(TooLarge):
                await broker.spaces.define("map", dict.fromkeys("abc", "number"), ANYBODY)
            await broker.spaces.define("map", {"x": "number"}, ANYBODY)
            with pytest.raises(TooManyRequests):
                await broker.spaces.define("other", {"x": "number"}, ANYBODY)
            assert isinstance(await change(broker, "a", "put", {"regions": [{"x": 1}] * 3}), TooLarge)
            assert isinstance(await change(broker, "a", "put", {"regions": [{"x": 1}] * 2}), Published)
            assert isinstance(await change(broker, "b", "put", {"regions": [{"x": 1}]}), Published)
            assert isinstance(await change(broker, "c", "put", {"regions": [{"x": 1}]}), TooManyRequests)
            with pytest.raises(TooLarge):
                await subscribe(broker, "zone", regions=[{"x": 1}] * 3)

    asyncio.run(work())


@pytest.mark.parametrize("margin", [1e308, -1.0])
def test_a_margin_that_no_distance_has_is_refused_and_the_broker_goes_on(margin: float, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as broker:
            await broker.spaces.define("map", {"t": "timestamp"}, ANYBODY)
            regions = [{"t": "[2026-01-01, 2026-02-01]"}]
            with pytest.raises(BrokerError, match="hysteresis"):
                await subscribe(broker, "zone", regions=regions, hysteresis={"t": margin})
            await subscribe(broker, "zone", regions=regions, hysteresis={"t": 1e15})
            assert broker.ready

    asyncio.run(main())


def test_a_dropped_space_ends_its_subscriptions_and_may_be_defined_anew(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            await broker.spaces.define("map", {"x": "number"}, ANYBODY)
            await subscribe(broker, "zone", regions=[{"x": "[0, 5]"}])
            await change(broker, "a", "put", {"regions": [{"x": 1}]})
            await broker.spaces.drop("map", ANYBODY)
            assert broker.store.subscription("zone") is None
            await broker.spaces.define("map", {"x": "string"}, ANYBODY)
            await subscribe(broker, "zone", regions=[{"x": "red"}])
            await change(broker, "a", "put", {"regions": [{"x": "red"}]})
        async with opened(tmp_path) as broker:
            assert await messages(broker, "zone") == [[("enter", "a", {"regions": [{"x": "red"}]})]]

    asyncio.run(work())


def test_subscriptions_follow_their_token_or_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            await broker.tokens.create("root", ["admin"])
            await broker.tokens.create("mine", ["publish", "subscribe"], "one")
            one, two = (Principal("mine", frozenset({"publish", "subscribe"}), name) for name in ("one", "two"))
            for who, places in ((one, (1,)), (two, (2, 3))):
                await broker.spaces.define("map", {"x": "number"}, who)
                for place in places:
                    await change(broker, f"p{place}", "put", {"regions": [{"x": place}]}, who)
            await subscribe(broker, "zone", one, regions=[{"x": "[0, 5]"}])
            await broker.tokens.change("mine", ["publish", "subscribe"], "two", {})
            root = Principal("root", frozenset({"admin"}))
            assert [[key for _, key, _ in told] for told in await messages(broker, "zone", root)] == [
                ["p1"],
                ["p2", "p3"],
            ]
            await broker.tokens.change("mine", ["publish", "subscribe"], "two", {"z": 2})
            assert broker.store.subscription("zone") is None

    asyncio.run(work())


def test_an_update_that_cannot_be_read_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(content: bytes, limit: int) -> Regions:
        if b"7" in content:
            raise RuntimeError("a mistake")
        return read_regions(content, limit)

    async def work() -> None:
        async with opened(tmp_path) as broker:
            await broker.spaces.define("map", {"x": "number"}, ANYBODY)
            monkeypatch.setattr("whimbrel.broker.publications.space_topic.read_regions", fail)
            assert await change(broker, "a", "put", {"regions": [{"x": 1}]}) == Published(1)
            assert isinstance(await change(broker, "a", "put", {"regions": [{"x": 7}]}), InternalError)
            assert await change(broker, "a", "put", {"regions": [{"x": 2}]}) == Published(2)
            assert broker.ready

    asyncio.run(work())


def test_a_subscription_that_another_tenant_refuses_goes_on_in_its_own(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            await broker.tokens.create("mine", ["admin"], "one")
            one, two = (Principal("mine", frozenset({"admin"}), name) for name in ("one", "two"))
            for who in (one, two):
                await broker.spaces.define("map", {"x": "number"}, who)
            await subscribe(broker, "zone", one, regions=[{"x": "[0, 5]"}])
            with pytest.raises(BrokerError):
                await subscribe(broker, "zone", two, regions=[{"x": "no interval"}])
            await change(broker, "a", "put", {"regions": [{"x": 1}]}, one)
            assert await messages(broker, "zone", one) == [[("enter", "a", {"regions": [{"x": 1}]})]]

    asyncio.run(work())


def test_many_dwells_that_are_over_at_once_are_told_by_several_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log bounds its entries: one with all pairs could be too long for it."""
    monkeypatch.setattr("whimbrel.broker.publications.space_topic.EXPIRED_AT_ONCE", 2)

    async def work() -> None:
        async with opened(tmp_path) as broker:
            now = 1_000.0
            broker.publications.topics.clock = lambda: now
            await broker.spaces.define("map", {"x": "number"}, ANYBODY)
            await subscribe(broker, "zone", regions=[{"x": "[0, 5]"}], leave=True, dwell=1.0)
            for place in (1, 9):
                for key in "abcde":
                    await change(broker, key, "put", {"regions": [{"x": place}]})
            now += 5.0
            broker.publications.expire()
            await update(broker)
            told = await messages(broker, "zone")
            gone = [[key for kind, key, _ in entry if kind == "leave"] for entry in told[5:]]
            assert gone == [["a", "b"], ["c", "d"], ["e"]]

    asyncio.run(work())


def test_a_subscription_whose_entry_might_be_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whimbrel.broker.publications.space_topic.INSIDE_BYTES", 90)

    async def work() -> None:
        async with opened(tmp_path) as broker:
            await broker.spaces.define("map", {"x": "number"}, ANYBODY)
            for key in "ab":
                await change(broker, key, "put", {"regions": [{"x": 1}]})
            await subscribe(broker, "early", regions=[{"x": 1}], dwell=1.0)
            await change(broker, "c", "put", {"regions": [{"x": 1}]})
            for options in ({"dwell": 1.0}, {"hysteresis": {"x": 1}}):
                with pytest.raises(Unprocessable, match="at most 90 bytes of keys"):
                    await subscribe(broker, "late", regions=[{"x": 1}], **options)
            await subscribe(broker, "late", regions=[{"x": 1}])
            assert len((await messages(broker, "late"))[0]) == 3

    asyncio.run(work())
