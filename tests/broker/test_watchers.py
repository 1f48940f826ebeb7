"""Streams of a filter on publications: what matches already, who enters, leaves and is deleted, and nothing is kept."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.broker.peering.overlays import until
from tests.broker.processes import PLAIN, BrokerProcess
from tests.broker.test_streams import streamed
from whimbrel.client import Client, Refused


def told(client: Client, filter: str, count: int, **options: Any) -> tuple[threading.Thread, list[Any]]:
    """Follow a stream in a thread until it has so many messages, or one about the key `end`."""
    found: list[Any] = []

    def follow() -> None:
        with suppress(Exception):  # when the test is over, the client is closed
            for message in client.subscribe(filter, on="publications", **options):
                found.append((message.event["type"].removeprefix("whimbrel."), message.event["subject"], message.data))
                if len(found) == count or message.event["subject"] == "end":
                    return

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    return thread, found


def wait_for_streams(http: httpx.Client, count: int, **headers: str) -> None:
    until(lambda: f"whimbrel_streams {float(count)}" in http.get("/metrics", headers=headers).text)


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[Client]:
    with Client(broker.url) as one:
        yield one


def test_a_stream_begins_with_what_matches_and_goes_on_with_transitions(http: httpx.Client, client: Client) -> None:
    ovens = client.publications
    ovens.put("oven", {"heat": 31})
    ovens.put("fridge", {"heat": 4})
    thread, found = told(client, "heat > 30", 6, leave=True)
    silent, quiet = told(client, "heat > 30", 4)
    wait_for_streams(http, 2)
    ovens.patch("oven", {"heat": 35})  # it stays inside
    ovens.patch("oven", {"heat": 20})
    ovens.patch("fridge", {"heat": 50})
    ovens.put("oven", {"heat": 40})
    ovens.delete("oven")
    ovens.patch("fridge", {"heat": 1})
    thread.join(30)
    silent.join(30)
    enters = [("enter", "oven", {"heat": 31}), ("enter", "fridge", {"heat": 50}), ("enter", "oven", {"heat": 40})]
    left = [("leave", "oven", {"heat": 20}), ("delete", "oven", None), ("leave", "fridge", {"heat": 1})]
    assert found == [enters[0], left[0], enters[1], enters[2], left[1], left[2]]
    assert quiet == [*enters, left[1]]
    client.publications.delete("fridge")
    wait_for_streams(http, 0)  # and nothing is kept


@pytest.mark.parametrize("seed", range(2))
def test_a_stream_is_told_what_a_durable_subscription_is(http: httpx.Client, client: Client, seed: int) -> None:
    chance = random.Random(seed)
    keys = [f"{seed}-{n}" for n in range(6)]
    states = client.publications
    for key in keys[:3]:
        states.put(key, {"seed": seed, "n": chance.randrange(10)})
    filter = f"seed = {seed} AND n >= 5"
    durable = client.create(filter, on="publications", leave=True)["id"]
    thread, found = told(client, filter, 1_000_000, leave=True)
    wait_for_streams(http, 1)
    present = set(keys[:3])
    for _ in range(60):
        key = chance.choice(keys)
        if key in present and chance.random() < 0.2:
            states.delete(key)
            present.discard(key)
        else:
            states.put(key, {"seed": seed, "n": chance.randrange(10)})
            present.add(key)
    states.put("end", {"seed": seed, "n": 9})
    thread.join(60)
    messages = client.pull(durable, limit=1000)
    assert found == [(m.event["type"].removeprefix("whimbrel."), m.event["subject"], m.data) for m in messages]
    assert len(found) > 20
    client.delete(durable)
    for key in (*present, "end"):
        states.delete(key)
    wait_for_streams(http, 0)


def test_rules_hide_states_and_a_tenant_sees_its_own(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path) as broker,
        httpx.Client(base_url=broker.url, timeout=60, **PLAIN) as http,
    ):
        check_rules(broker, http)


def check_rules(broker: BrokerProcess, http: httpx.Client) -> None:
    root = http.post("/tokens", json={"name": "root", "scopes": ["admin"]}).json()["token"]
    headers = {"authorization": f"Bearer {root}"}
    asked = {"name": "bound", "scopes": ["subscribe"], "rules": {"owner": "me"}}
    bound = http.post("/tokens", json=asked, headers=headers).json()["token"]
    asked = {"name": "other", "scopes": ["subscribe"], "tenant": "other"}
    other = http.post("/tokens", json=asked, headers=headers).json()["token"]
    with Client(broker.url, root) as admin, Client(broker.url, bound) as mine, Client(broker.url, other) as theirs:
        admin.publications.put("a", {"owner": "me", "n": 1})
        admin.publications.put("b", {"owner": "you", "n": 1})
        thread, found = told(mine, "n = 1", 2, leave=True)
        _, nothing = told(theirs, "n = 1", 1)
        wait_for_streams(http, 2, **headers)
        admin.publications.put("a", {"owner": "you", "n": 1, "secret": 7})
        thread.join(30)
        assert found == [("enter", "a", {"owner": "me", "n": 1}), ("leave", "a", None)] and nothing == []
        for key in ("a", "b"):
            admin.publications.delete(key)


def test_what_a_stream_cannot_be_about(http: httpx.Client, client: Client) -> None:
    for query in ("on=spaces/map", "on=publications&leave=1", "leave=true"):
        assert http.get(f"/stream?{query}").status_code == 400
    with pytest.raises(Refused, match="publications"):
        next(client.subscribe("TRUE", on="nothing"))
    with streamed(http, "/stream?on=publications&filter=FALSE") as events:
        assert events is not None


def test_a_broker_with_publications_never_loads_pandas(broker: BrokerProcess, client: Client) -> None:
    client.publications.put("oven", {"heat": 31})
    made = client.create("heat > 30", on="publications", outer="heat > 25", dwell=60)
    client.publications.patch("oven", {"heat": 20})
    next(client.subscribe("heat < 30", on="publications"))
    assert [message.event["type"] for message in client.pull(made["id"])] == ["whimbrel.enter"]
    assert "/pandas/" not in Path(f"/proc/{broker.process.pid}/maps").read_text()
