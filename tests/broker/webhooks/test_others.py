"""Bad receivers slow nobody else: slow, silent, refusing and failing ones beside good ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from tests.broker.processes import BrokerProcess, free_port
from tests.broker.webhooks.receiver import Got, Receiver
from tests.broker.webhooks.test_webhooks import SETTINGS, delivery, publish, subscribe, wait_for

WAIVED = {"protocolsettings": {"consent": "waived"}}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    settings: dict[str, Any] = {**SETTINGS, "webhook_seconds": 20.0, "webhook_schedule": [0, 3600]}
    with BrokerProcess(tmp_path, **settings) as process:
        yield process


def test_bad_receivers_slow_nobody_else(http: httpx.Client) -> None:
    """A hundred subscriptions of receivers that never answer, refuse or fail; the good one gets all of its messages."""
    with Receiver() as good, Receiver(lambda _: 500) as failing:

        def hang(_: Got) -> int:
            hanging.closing.wait(60)
            return 200

        with Receiver(hang) as hanging:
            lines = []
            for number in range(100):
                sink = (hanging.url, failing.url, f"http://127.0.0.1:{free_port()}/")[number % 3]
                lines.append({"filter": "data.topic = 'all'", "protocol": "HTTP", "sink": sink, **WAIVED})
            body = b"\n".join(map(msgspec.json.encode, lines))
            answer = http.post("/subscriptions/import", content=body, headers={"content-type": "application/x-ndjson"})
            results = answer.json()["results"]
            assert len({one["secret"] for one in results}) == 100
            made = subscribe(http, good, "all", **WAIVED)
            publish(http, "all", 50)
            assert [got.json["data"]["n"] for got in good.wait(50)] == list(range(50))
            assert delivery(http, made["id"])["state"] == "active"
            began = time.monotonic()
            publish(http, "all", 1, first=50)  # nor a publisher
            assert time.monotonic() - began < 10
            good.wait(51)
            wait_for(lambda: delivery(http, results[1]["id"])["state"] == "retrying")
            shown = delivery(http, results[1]["id"])
            assert shown["attempts"] == 1 and "500" in shown["problem"] and "next_attempt" in shown
            metrics = http.get("/metrics").text
            assert "whimbrel_webhook_messages_total 51.0" in metrics and "whimbrel_webhooks_in_flight" in metrics


def test_retries_and_what_waits_survive_a_restart(broker: BrokerProcess, http: httpx.Client) -> None:
    with Receiver(lambda _: 500) as receiver, Receiver() as paused:
        made = subscribe(http, receiver, "kept", **WAIVED)
        other = subscribe(http, paused, "kept", **WAIVED)
        http.post(f"/subscriptions/{other['id']}/disable").raise_for_status()
        publish(http, "kept", 3)
        wait_for(lambda: delivery(http, made["id"])["state"] == "retrying")
        before = delivery(http, made["id"])
        assert broker.stop() == 0
        broker.start()
        assert delivery(http, made["id"]) == before and delivery(http, other["id"])["state"] == "disabled"
        assert len(receiver.got) == 1 and paused.got == []
        receiver.behave = lambda _: 200
        for one in (made, other):
            http.post(f"/subscriptions/{one['id']}/enable").raise_for_status()
        assert [got.json["data"]["n"] for got in receiver.wait(4)] == [0, 0, 1, 2]
        assert receiver.got[0].headers["webhook-id"] == receiver.got[1].headers["webhook-id"]
        assert [got.json["data"]["n"] for got in paused.wait(3)] == [0, 1, 2]


def test_only_an_admin_waives_consent(http: httpx.Client) -> None:
    root = http.post("/tokens", json={"name": "root", "scopes": ["admin"]}).json()["token"]
    admin = {"authorization": f"Bearer {root}"}
    token = http.post("/tokens", json={"name": "p", "scopes": ["subscribe"]}, headers=admin).json()["token"]
    mine = {"authorization": f"Bearer {token}"}
    body = {"filter": "TRUE", "protocol": "HTTP", "sink": "http://example.com/", **WAIVED}
    assert http.post("/subscriptions", json=body, headers=mine).status_code == 403
    lines = {"content": msgspec.json.encode(body), "headers": {**mine, "content-type": "application/x-ndjson"}}
    assert "admin" in http.post("/subscriptions/import", **lines).json()["results"][0]["error"]["message"]
    asked = {**body, "sink": f"http://127.0.0.1:{free_port()}/", "protocolsettings": {}}
    made = http.post("/subscriptions", json=asked, headers=mine)
    path = f"/subscriptions/{made.json()['id']}"
    assert made.status_code == 201 and http.put(path, json={**asked, **WAIVED}, headers=mine).status_code == 403
    assert http.put(path, json={**asked, **WAIVED}, headers=admin).status_code == 200
    assert http.put(path, json={**asked, **WAIVED, "filter": "FALSE"}, headers=mine).status_code == 200
    for action in ("attempts", "dead-letters"):  # somebody else's are not seen
        other = http.post("/tokens", json={"name": f"o{action}", "scopes": ["subscribe"]}, headers=admin).json()[
            "token"
        ]
        answer = http.get(f"{path}/{action}", headers={"authorization": f"Bearer {other}"})
        assert answer.status_code == 404
