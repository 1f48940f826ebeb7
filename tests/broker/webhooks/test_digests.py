"""Digests: for webhooks, Server-Sent Events and WebSockets alike."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.sync.client import connect

from tests.broker.processes import BrokerProcess
from tests.broker.webhooks.receiver import Receiver
from tests.broker.webhooks.test_webhooks import SETTINGS, publish, subscribe
from whimbrel.broker.delivery.digests import closed_messages, digest_of
from whimbrel.broker.delivery.message_reader import StoredMessage

EVERY = {"every": "1s", "max": 4}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("digests"), **SETTINGS) as process:
        yield process
        assert process.stop() == 0


def check(digests: list[dict[str, Any]], count: int) -> None:
    """All events once and in order, in windows of UTC that follow each other, none empty and none too large."""
    events = [event["data"]["n"] for digest in digests for event in digest["events"]]
    assert events == list(range(count))
    former = 0.0
    for digest in digests:
        start, until = (datetime.fromisoformat(digest[name]).timestamp() for name in ("from", "until"))
        assert start == int(start) and until == int(until) and former <= start + 1 and start < until <= time.time() + 1
        assert 1 <= len(digest["events"]) <= 4
        former = until


def test_a_webhook_gets_digests(http: httpx.Client) -> None:
    with Receiver() as receiver:
        made = subscribe(http, receiver, "digest", digest=EVERY)
        publish(http, "digest", 6)
        receiver.until(lambda: len(receiver.events) >= 6)
        publish(http, "digest", 1, first=6)
        receiver.until(lambda: len(receiver.events) >= 7)
        check([got.json for got in receiver.got], 7)
        assert {got.headers["content-type"] for got in receiver.got} == {"application/json"}
        assert all(got.is_signed(made["secret"]) for got in receiver.got)
        for got in receiver.got:  # not before its window is over
            assert got.time >= datetime.fromisoformat(got.json["until"]).timestamp()


def test_a_failed_digest_is_the_same_when_it_is_tried_again(http: httpx.Client) -> None:
    answers = iter([500, 500, 200])
    with Receiver(lambda _: next(answers, 200)) as receiver:
        subscribe(http, receiver, "same", digest=EVERY)
        publish(http, "same", 2)
        first = receiver.wait(1)[0]
        publish(http, "same", 1, first=2)
        receiver.until(lambda: len({event["id"] for event in receiver.events}) == 3)
        assert [got.body for got in receiver.got[:3]] == [first.body] * 3
        assert {got.headers["webhook-id"] for got in receiver.got[:3]} == {first.headers["webhook-id"]}
        check([receiver.got[0].json, *(got.json for got in receiver.got[3:])], 3)


def test_a_stream_gets_digests_and_resumes_behind_the_last(http: httpx.Client) -> None:
    made = http.post("/subscriptions", json={"filter": "data.topic = 'sse'", "protocol": "SSE", "digest": EVERY}).json()
    publish(http, "sse", 6)
    found: list[dict[str, Any]] = []
    last = ""
    while sum(len(one["events"]) for one in found) < 6:
        headers = {"last-event-id": last} if last else {}
        with http.stream("GET", f"/subscriptions/{made['id']}/stream", headers=headers) as answer:
            for line in answer.iter_lines():
                last = line.removeprefix("id: ") if line.startswith("id: ") else last
                if line.startswith("data: "):
                    found.append(json.loads(line.removeprefix("data: ")))
                    break  # connect anew for each
    check(found, 6)
    cursor = http.get(f"/subscriptions/{made['id']}").json()
    assert cursor["digest"] == EVERY


def test_a_websocket_gets_digests(http: httpx.Client, broker: BrokerProcess) -> None:
    made = http.post("/subscriptions", json={"filter": "data.topic = 'ws'", "protocol": "WS", "digest": EVERY}).json()
    publish(http, "ws", 3)
    url = f"{broker.url.replace('http', 'ws')}/subscriptions/{made['id']}/ws"
    with connect(url, subprotocols=["cloudevents.json"], proxy=None) as socket:  # type: ignore[list-item]
        found: list[dict[str, Any]] = []
        while sum(len(one["events"]) for one in found) < 3:
            found.append(json.loads(socket.recv()))
        socket.send(json.dumps({"ack": found[-1]["whimbrelcursor"]}))
    check(found, 3)


@pytest.mark.parametrize("protocol", ["SSE", "WS"])
def test_an_open_stream_follows_changes_of_its_digest(http: httpx.Client, broker: BrokerProcess, protocol: str) -> None:
    topic = f"changing {protocol}"
    body = {"filter": f"data.topic = '{topic}'", "protocol": protocol}
    made = http.post("/subscriptions", json=body).json()

    def change(**fields: Any) -> None:
        http.put(f"/subscriptions/{made['id']}", json={**body, **fields}).raise_for_status()

    with messages(http, broker, made["id"], protocol) as coming:
        publish(http, topic)
        assert next(coming)["data"]["n"] == 0
        change(digest=EVERY)
        publish(http, topic, 2, first=1)
        digests = [next(coming)]
        while len(digests) == 1 and len(digests[0]["events"]) < 2:  # a window may end between two events
            digests.append(next(coming))
        assert [event["data"]["n"] for digest in digests for event in digest["events"]] == [1, 2]
        change(digest={"every": "1h"})
        publish(http, topic, 1, first=3)
        change()  # what waits for the end of the hour comes now
        publish(http, topic, 1, first=4)
        assert [next(coming)["data"]["n"] for _ in range(2)] == [3, 4]


@contextmanager
def messages(http: httpx.Client, broker: BrokerProcess, id: str, protocol: str) -> Iterator[Iterator[dict[str, Any]]]:
    """The messages of a stream, as they come."""
    if protocol == "SSE":
        with http.stream("GET", f"/subscriptions/{id}/stream") as answer:
            lines = answer.iter_lines()
            assert next(lines) == ": whimbrel"  # it is open
            yield (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))
        return
    url = f"{broker.url.replace('http', 'ws')}/subscriptions/{id}/ws"
    with connect(url, subprotocols=["cloudevents.json"], proxy=None) as socket:  # type: ignore[list-item]
        yield (json.loads(message) for message in socket)


@given(
    st.lists(st.integers(0, 10_000_000), max_size=30).map(sorted),
    st.integers(1, 7),
    st.integers(0, 12_000_000),
)
def test_digests_have_the_closed_windows_and_nothing_else(times: list[int], seconds: int, now: int) -> None:
    messages = [StoredMessage(n, b"%d" % n, time=time) for n, time in enumerate(times)]
    found = closed_messages(messages, seconds, now)
    boundary = now // (seconds * 1_000_000) * seconds * 1_000_000
    assert found == [message for message in messages if message.time < boundary]
    if found:
        digest = json.loads(digest_of(found, seconds))
        start, until = (datetime.fromisoformat(digest[name]).timestamp() * 1e6 for name in ("from", "until"))
        assert start % (seconds * 1e6) == until % (seconds * 1e6) == 0 and until <= now
        assert start <= found[0].time and found[-1].time < until and digest["events"] == [m.offset for m in found]
