"""Webhooks end to end: a broker process, and receivers that are real HTTP servers on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from tests.broker.processes import PLAIN, BrokerProcess
from tests.broker.webhooks.receiver import Receiver
from whimbrel.client import AsyncClient

SETTINGS: dict[str, Any] = {
    "webhook_networks": ["127.0.0.0/8"],
    "webhook_origin": "broker.example",
    "webhook_schedule": [0, 0.05, 0.05, 0.05],
    "webhook_seconds": 2.0,
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("webhooks"), **SETTINGS)
    process.settings["public_url"] = process.url
    with process:
        yield process
        assert process.stop() == 0


@pytest.fixture
def http(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.url, timeout=60, **PLAIN) as client:
        yield client


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as one:
        yield one


def subscribe(http: httpx.Client, receiver: Receiver, topic: str, **fields: Any) -> dict[str, Any]:
    body = {"filter": f"data.topic = '{topic}'", "protocol": "HTTP", "sink": receiver.url, **fields}
    answer = http.post("/subscriptions", json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def publish(http: httpx.Client, topic: str, count: int = 1, first: int = 0) -> None:
    events = [
        {"specversion": "1.0", "id": f"{topic}-{n}", "source": "t", "type": "e", "data": {"topic": topic, "n": n}}
        for n in range(first, first + count)
    ]
    http.post("/events", json=events, headers={"content-type": "application/cloudevents-batch+json"}).raise_for_status()


def delivery(http: httpx.Client, id: str) -> dict[str, Any]:
    return dict(http.get(f"/subscriptions/{id}").json()["delivery"])


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_message_is_sent_signed_after_consent(http: httpx.Client, receiver: Receiver) -> None:
    made = subscribe(http, receiver, "signed", protocolsettings={"headers": {"x-mine": "yes"}, "rate": 600_000})
    (asked,) = receiver.wait_asked()
    assert asked.path == "/hook" and asked.headers["webhook-request-origin"] == "broker.example"
    assert asked.headers["webhook-request-rate"] == "600000"
    assert "/webhooks/consent/" in asked.headers["webhook-request-callback"]
    publish(http, "signed")
    (got,) = receiver.wait()
    assert got.headers["content-type"] == "application/cloudevents+json"
    assert got.headers["webhook-request-origin"] == "broker.example" and got.headers["x-mine"] == "yes"
    assert got.json["id"] == "signed-0" and got.is_signed(made["secret"])
    assert abs(int(got.headers["webhook-timestamp"]) - time.time()) < 60
    shown = http.get(f"/subscriptions/{made['id']}")
    assert made["secret"] not in shown.text and shown.json()["delivery"] == {"state": "active", "consent": "granted"}


def test_batches_come_only_when_they_are_asked_for(http: httpx.Client, receiver: Receiver) -> None:
    subscribe(http, receiver, "batch", protocolsettings={"batch": 7, "consent": "waived"})
    publish(http, "batch", 20)
    receiver.until(lambda: len(receiver.events) >= 20)
    assert {got.headers["content-type"] for got in receiver.got} == {"application/cloudevents-batch+json"}
    assert all(1 <= len(got.events) <= 7 for got in receiver.got) and len(receiver.got) < 20
    assert [event["data"]["n"] for event in receiver.events] == list(range(20)) and receiver.asked == []


def test_one_by_one_in_order(http: httpx.Client, receiver: Receiver) -> None:
    subscribe(http, receiver, "order")
    publish(http, "order", 200)
    got = receiver.wait(200)
    assert [one.json["data"]["n"] for one in got] == list(range(200))
    assert len({one.headers["webhook-id"] for one in got}) == 200


def test_without_consent_nothing_is_sent_until_the_callback_is_called(http: httpx.Client) -> None:
    with Receiver(consent={}) as receiver:
        made = subscribe(http, receiver, "silent")
        publish(http, "silent", 3)
        (asked,) = receiver.wait_asked()
        wait_for(lambda: delivery(http, made["id"])["consent"] == "refused")
        assert delivery(http, made["id"])["state"] == "awaiting-consent" and receiver.got == []
        assert http.post(f"/subscriptions/{made['id']}/test").status_code == 409
        callback = asked.headers["webhook-request-callback"]
        assert httpx.get(callback[:-1] + "x", **PLAIN).status_code == 404
        answer = httpx.post(callback, headers={"webhook-allowed-rate": "6000000"}, **PLAIN)
        assert answer.json() == {"consent": "granted"}
        assert [one.json["data"]["n"] for one in receiver.wait(3)] == [0, 1, 2]
        assert delivery(http, made["id"]) == {"state": "active", "consent": "granted", "rate": 6_000_000}
        assert httpx.get(callback, **PLAIN).status_code == 404  # it works once


@pytest.mark.parametrize("consent", [{"WebHook-Allowed-Origin": "other.example"}, {"WebHook-Allowed-Origin": "*"}])
def test_consent_for_another_origin_or_without_the_rate_is_none(http: httpx.Client, consent: dict[str, str]) -> None:
    with Receiver(consent=consent) as receiver:
        made = subscribe(http, receiver, "other", protocolsettings={"rate": 60})
        wait_for(lambda: delivery(http, made["id"])["consent"] == "refused")
        receiver.consent = {"WebHook-Allowed-Origin": "BROKER.example", "WebHook-Allowed-Rate": "60000"}
        assert http.post(f"/subscriptions/{made['id']}/enable").status_code == 204
        wait_for(lambda: delivery(http, made["id"])["consent"] == "granted")


def test_the_allowed_rate_is_kept(http: httpx.Client) -> None:
    with Receiver(consent={"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "600"}) as receiver:
        subscribe(http, receiver, "paced")
        publish(http, "paced", 6)
        times = [got.time for got in receiver.wait(6)]
    assert times[-1] - times[0] > 5 * 0.1 * 0.9  # 600 a minute are one in 0.1 s


def test_a_failure_is_tried_again_with_the_same_id(http: httpx.Client) -> None:
    answers = iter([500, 302, 503, 200])
    with Receiver(lambda _: next(answers, 200)) as receiver:
        made = subscribe(http, receiver, "again", protocolsettings={"batch": 10, "consent": "waived"})
        publish(http, "again", 1)
        wait_for(lambda: len(receiver.got) >= 1)
        publish(http, "again", 2, first=1)  # the attempts of the first have none of these
        receiver.until(lambda: len(receiver.events) >= 6)
        first = receiver.got[:4]
        assert len({got.headers["webhook-id"] for got in first}) == 1 and len({got.body for got in first}) == 1
        assert [event["data"]["n"] for got in receiver.got[4:] for event in got.events] == [1, 2]
        wait_for(lambda: len(http.get(f"/subscriptions/{made['id']}/attempts").json()["attempts"]) == len(receiver.got))
        log = http.get(f"/subscriptions/{made['id']}/attempts").json()["attempts"][::-1]
        assert [one["status"] for one in log[:4]] == [500, 302, 503, 200]
        assert [one["attempt"] for one in log[:4]] == [1, 2, 3, 4] and "problem" not in log[3]
        assert delivery(http, made["id"])["state"] == "active"


def test_a_receiver_that_is_gone_is_not_asked_again(http: httpx.Client) -> None:
    with Receiver(lambda _: 410) as receiver:
        made = subscribe(http, receiver, "gone")
        publish(http, "gone", 3)
        wait_for(lambda: delivery(http, made["id"])["state"] == "disabled")
        assert delivery(http, made["id"])["reason"] == "gone" and len(receiver.got) == 1
        receiver.behave = lambda _: 200
        http.post(f"/subscriptions/{made['id']}/enable").raise_for_status()
        assert [one.json["data"]["n"] for one in receiver.wait(4)] == [0, 0, 1, 2]  # nothing was lost


def test_a_format_that_is_not_understood_disables(http: httpx.Client) -> None:
    with Receiver(lambda _: 415) as receiver:
        made = subscribe(http, receiver, "format")
        publish(http, "format")
        wait_for(lambda: delivery(http, made["id"])["state"] == "disabled")
        assert delivery(http, made["id"])["reason"] == "format" and len(receiver.got) == 1


def test_retry_after_is_honoured(http: httpx.Client) -> None:
    answers = iter([(429, {"retry-after": "1"}), 200])
    with Receiver(lambda _: next(answers)) as receiver:
        subscribe(http, receiver, "slower")
        publish(http, "slower")
        first, second = receiver.wait(2)
        assert second.time - first.time >= 1.0 and first.headers["webhook-id"] == second.headers["webhook-id"]


def test_what_is_given_up_is_a_dead_letter_and_can_be_sent_again(http: httpx.Client) -> None:
    with Receiver(lambda _: 500) as receiver:
        made = subscribe(http, receiver, "dead")
        path = f"/subscriptions/{made['id']}"
        publish(http, "dead", 2)
        wait_for(lambda: delivery(http, made["id"])["state"] == "disabled")
        assert delivery(http, made["id"])["reason"] == "failing" and len(receiver.got) == 4
        wait_for(lambda: http.get(f"{path}/dead-letters").json()["dead_letters"] != [])
        (letter,) = http.get(f"{path}/dead-letters").json()["dead_letters"]
        assert letter["events"] == 1 and letter["attempts"] == 4 and "500" in letter["problem"]
        assert http.post(f"{path}/dead-letters/{letter['number']}/redeliver").json()["delivered"] is False
        receiver.behave = lambda _: 200
        http.post(f"{path}/enable").raise_for_status()
        assert receiver.wait(6)[-1].json["data"]["n"] == 1  # behind the dead one
        sent = http.post(f"{path}/dead-letters/{letter['number']}/redeliver").json()
        assert sent["delivered"] and sent["status"] == 200
        assert receiver.got[-1].headers["webhook-id"] == letter["message"] == receiver.got[0].headers["webhook-id"]
        assert http.get(f"{path}/dead-letters").json()["dead_letters"] == []
        assert http.post(f"{path}/dead-letters/{letter['number']}/redeliver").status_code == 404


def test_secrets_are_rotated(http: httpx.Client, receiver: Receiver) -> None:
    given = "whsec_" + "QUJD" * 10
    made = subscribe(http, receiver, "rotated", protocolsettings={"secret": given})
    path = f"/subscriptions/{made['id']}"
    assert made["secret"] == given and "secret" not in made["protocolsettings"]
    assert given not in http.get(path).text and given not in http.get("/subscriptions/export").text
    new = http.post(f"{path}/rotate", json={}).json()["secret"]
    publish(http, "rotated")
    (got,) = receiver.wait()
    assert got.is_signed(given) and got.is_signed(new) and got.headers["webhook-signature"].count("v1,") == 2
    newest = http.post(f"{path}/rotate", json={"keep": 0}).json()["secret"]
    publish(http, "rotated", first=1)
    got = receiver.wait(2)[1]
    assert got.is_signed(newest) and not got.is_signed(new) and not got.is_signed(given)
    assert http.post(f"{path}/rotate", json={"secret": "whsec_short"}).status_code == 422


def test_a_credential_is_sent_but_never_shown(http: httpx.Client, receiver: Receiver) -> None:
    token = {"credentialtype": "ACCESSTOKEN", "accesstoken": "very-secret"}
    made = subscribe(http, receiver, "credential", sinkcredential=token)
    publish(http, "credential")
    assert receiver.wait()[0].headers["authorization"] == "Bearer very-secret"
    assert "authorization" not in receiver.asked[0].headers
    assert "very-secret" not in http.get(f"/subscriptions/{made['id']}").text
    body = {"filter": "data.topic = 'credential'", "protocol": "HTTP", "sink": receiver.url + "?other"}
    http.put(f"/subscriptions/{made['id']}", json=body).raise_for_status()
    receiver.wait_asked(2)  # another sink must consent too
    publish(http, "credential", first=1)
    assert receiver.wait(2)[1].headers["authorization"] == "Bearer very-secret"
    with Receiver() as other:  # another origin does not get it
        http.put(f"/subscriptions/{made['id']}", json={**body, "sink": other.url}).raise_for_status()
        publish(http, "credential", first=2)
        assert "authorization" not in other.wait()[0].headers


def test_a_test_is_sent(http: httpx.Client, receiver: Receiver) -> None:
    made = subscribe(http, receiver, "test")
    receiver.wait_asked()
    wait_for(lambda: delivery(http, made["id"])["consent"] == "granted")
    sent = http.post(f"/subscriptions/{made['id']}/test").json()
    assert sent["delivered"] and sent["status"] == 204
    assert receiver.got[0].json["type"] == "whimbrel.test" and receiver.got[0].is_signed(made["secret"])


def test_disabled_by_its_owner(http: httpx.Client, receiver: Receiver) -> None:
    made = subscribe(http, receiver, "paused")
    receiver.wait_asked()
    http.post(f"/subscriptions/{made['id']}/disable").raise_for_status()
    publish(http, "paused", 3)
    wait_for(lambda: delivery(http, made["id"]).get("reason") == "by-owner")
    assert receiver.got == []
    http.post(f"/subscriptions/{made['id']}/enable").raise_for_status()
    assert len(receiver.wait(3)) == 3


def test_a_subscription_that_ends_gets_nothing_more(http: httpx.Client, receiver: Receiver) -> None:
    made = subscribe(http, receiver, "ended")
    publish(http, "ended")
    receiver.wait()
    http.delete(f"/subscriptions/{made['id']}").raise_for_status()
    publish(http, "ended", first=1)
    assert http.get(f"/subscriptions/{made['id']}/attempts").status_code == 404
    other = subscribe(http, receiver, "ended")
    publish(http, "ended", first=2)
    assert [one.json["data"]["n"] for one in receiver.wait(2)] == [0, 2]
    assert other["id"] != made["id"]


def test_stored_events_are_sent_too(http: httpx.Client, receiver: Receiver) -> None:
    publish(http, "old", 5)
    subscribe(http, receiver, "old", start="beginning")
    publish(http, "old", 1, first=5)
    assert [one.json["data"]["n"] for one in receiver.wait(6)] == list(range(6))


REFUSED = [
    ({"sink": None}, "$.sink"),
    ({"sink": "ftp://example.com/"}, "$.sink"),
    ({"sink": "http://user:password@example.com/"}, "without credentials"),
    ({"sink": "http://example.com:22/"}, "port"),
    ({"sink": "http://example.com/#part"}, "fragment"),
    ({"sink": "http://exa mple.com/"}, "$.sink"),
    ({"protocolsettings": {"batch": 0}}, "batch"),
    ({"protocolsettings": {"headers": {"host": "x"}}}, "broker's own"),
    ({"protocolsettings": {"headers": {"Webhook-Signature": "x"}}}, "broker's own"),
    ({"protocolsettings": {"headers": {"x": "a\r\nb: c"}}}, "printable"),
    ({"protocolsettings": {"secret": "whsec_AAAA"}}, "$.secret"),
    ({"sinkcredential": {"credentialtype": "REFRESHTOKEN", "refreshtoken": "hidden"}}, "sinkcredential"),
    ({"digest": {"every": "0s"}}, "$.digest.every"),
    ({"digest": {"every": "8d"}}, "$.digest.every"),
    ({"protocol": "PULL"}, "$.sink"),
]


@pytest.mark.parametrize(("fields", "reason"), REFUSED, ids=str)
def test_refused_sinks(http: httpx.Client, fields: dict[str, Any], reason: str) -> None:
    body = {"filter": "TRUE", "protocol": "HTTP", "sink": "http://example.com/", **fields}
    answer = http.post("/subscriptions", json=body)
    assert answer.status_code == 422 and reason in answer.json()["error"]["message"], answer.text
    assert "hidden" not in answer.text


def test_publications_are_sent_too(http: httpx.Client, receiver: Receiver) -> None:
    fields = {"on": "publications", "leave": True, "protocolsettings": {"consent": "waived", "batch": 10}}
    body = {"filter": "temperature > 30", "protocol": "HTTP", "sink": receiver.url, **fields}
    http.post("/subscriptions", json=body).raise_for_status()
    for temperature in (31, 32, 20, 40):
        http.put("/publications/oven", json={"temperature": temperature}).raise_for_status()
    http.delete("/publications/oven").raise_for_status()
    receiver.until(lambda: len(receiver.events) >= 4)
    assert [event["type"].rpartition(".")[2] for event in receiver.events] == ["enter", "leave", "enter", "delete"]


def test_the_client_that_waits(broker: BrokerProcess, receiver: Receiver) -> None:
    async def work() -> None:
        async with AsyncClient(broker.url) as client:
            made = await client.create(
                "data.n = 'async'", protocol="HTTP", sink=receiver.url, protocolsettings={"consent": "waived"}
            )
            assert (await client.test(made["id"]))["delivered"]
            secret = await client.rotate(made["id"], keep=0)
            await client.disable(made["id"])
            await client.enable(made["id"])
            await client.publish({"n": "async"})
            got = (await asyncio.to_thread(receiver.wait, 2))[1]
            assert got.is_signed(secret) and await client.undelivered(made["id"]) == []
            while len(found := await client.attempts(made["id"])) < 2:
                pass
            assert [one["status"] for one in found] == [204, 204]

    asyncio.run(work())
