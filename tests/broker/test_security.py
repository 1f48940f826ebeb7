"""Who may do what: tokens, scopes, rules, loopback, limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.broker.processes import PLAIN, BrokerProcess
from tests.broker.test_http import cloud_event, messages, subscribe


class Callers:
    """Clients of one broker, each with its token."""

    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self._open: list[httpx.Client] = []
        self.admin = self.of(None)
        self.admin = self.of(self.token("root", ["admin"]))

    def token(self, name: str, scopes: list[str], **more: Any) -> str:
        answer = self.admin.post("/tokens", json={"name": name, "scopes": scopes, **more})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["token"])

    def of(self, token: str | None) -> httpx.Client:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        client = httpx.Client(base_url=self.process.url, headers=headers, timeout=120, **PLAIN)
        self._open.append(client)
        return client

    def close(self) -> None:
        for client in self._open:
            client.close()


@pytest.fixture(scope="module")
def callers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callers]:
    with BrokerProcess(tmp_path_factory.mktemp("secure")) as process:
        found = Callers(process)
        yield found
        found.close()


def test_scopes(callers: Callers) -> None:
    publisher = callers.of(callers.token("p", ["publish"]))
    subscriber = callers.of(callers.token("s", ["subscribe"]))
    assert publisher.post("/events", json={"a": 1}).status_code == 200
    assert subscriber.post("/events", json={"a": 1}).status_code == 403
    assert publisher.post("/subscriptions", json={}).status_code == 403
    assert subscriber.post("/subscriptions", json={}).status_code == 201
    for caller in (publisher, subscriber):
        assert caller.get("/tokens").status_code == 403
        assert caller.post("/tokens", json={"name": "x", "scopes": ["admin"]}).status_code == 403
        assert caller.delete("/tokens/root").status_code == 403


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer x", "Bearer whb.root.", "Bearer whb.root.wrong", "Basic eDp5", "Bearer " + "x" * 5000],
)
def test_bad_tokens_are_refused(callers: Callers, header: str) -> None:
    headers = {"authorization": header} if header else {}
    answer = httpx.get(f"{callers.process.url}/subscriptions", headers=headers, **PLAIN)
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert httpx.get(f"{callers.process.url}/healthz", **PLAIN).status_code == 200


def test_secrets_are_shown_once_and_stored_as_digests(callers: Callers, capfd: pytest.CaptureFixture[str]) -> None:
    token = callers.token("secret", ["publish"])
    secret = token.rpartition(".")[2]
    client = callers.of(token)
    answers = [
        callers.admin.get("/tokens"),
        client.get("/tokens"),
        client.post("/events", content=b"{"),
        client.get("/subscriptions"),
        callers.of(token + "x").get("/subscriptions"),
        callers.admin.get("/metrics"),
    ]
    assert all(secret not in answer.text + str(answer.headers) for answer in answers)
    callers.admin.delete("/tokens/secret")
    assert secret not in client.get("/subscriptions").text
    assert secret not in "".join(capfd.readouterr())
    for path in Path(callers.process.settings["data"]).rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_nobody_sees_the_subscriptions_of_others(callers: Callers) -> None:
    one, two = (callers.of(callers.token(name, ["subscribe"])) for name in ("one", "two"))
    id = subscribe(one, filter="TRUE")
    for call in [
        lambda: two.get(f"/subscriptions/{id}"),
        lambda: two.put(f"/subscriptions/{id}", json={}),
        lambda: two.delete(f"/subscriptions/{id}"),
        lambda: two.get(f"/subscriptions/{id}/messages"),
        lambda: two.post(f"/subscriptions/{id}/ack", json={"offset": 0}),
        lambda: two.get(f"/subscriptions/{id}/stream"),
        lambda: two.post(f"/subscriptions/{id}/explain", json={"offset": 0}),
    ]:
        assert call().status_code == 404
    assert two.get("/subscriptions").json()["subscriptions"] == []
    assert two.get("/subscriptions/export").text == ""
    assert callers.admin.get(f"/subscriptions/{id}").status_code == 200


KIND = {"content-type": "application/cloudevents-batch+json"}


@pytest.fixture(scope="module")
def seven(callers: Callers) -> httpx.Client:
    """A caller who may only see and publish events with tenant = 7."""
    return callers.of(callers.token("seven", ["publish", "subscribe"], rules={"tenant": 7}))


@pytest.fixture(scope="module")
def offsets(callers: Callers, seven: httpx.Client) -> list[int]:
    """Events of which seven may see the first only."""
    batch = [cloud_event(tenant=7, n=1), cloud_event(tenant=8, n=1), cloud_event(tenant=[7, 8], n=1), cloud_event(n=1)]
    return [one["offset"] for one in callers.admin.post("/events", json=batch, headers=KIND).json()["results"]]


def test_rules_hold_for_publishing(seven: httpx.Client) -> None:
    batch = [cloud_event(tenant=7), cloud_event(tenant=8), cloud_event(), cloud_event(tenant=[7, 8])]
    found = seven.post("/events", json=batch, headers=KIND).json()["results"]
    assert [one.get("error", {}).get("code") for one in found] == [None, *["forbidden"] * 3]
    # A plain event has the rule's attribute nowhere; lines are checked one by one.
    assert seven.post("/events", json={"tenant": 7}).status_code == 422
    lines = "\n".join(json.dumps(cloud_event(tenant=tenant)) for tenant in (8, 7))
    streamed = seven.post("/events", content=lines, headers={"content-type": "application/x-ndjson"}).json()
    assert ["error" in one for one in streamed["results"]] == [True, False]


def test_a_known_id_tells_nothing_about_events_of_others(callers: Callers, seven: httpx.Client) -> None:
    event = cloud_event(tenant=8)
    callers.admin.post("/events", json=[event], headers=KIND)
    (again,) = seven.post("/events", json=[event], headers=KIND).json()["results"]
    assert again["error"]["code"] == "forbidden" and "offset" not in again


def test_rules_hold_for_subscriptions(seven: httpx.Client, offsets: list[int]) -> None:
    for filter in ("n = 1", "tenant = 7 OR tenant = 8", "TRUE", "NOT (tenant = 7) OR n = 1", "tenant != 7"):
        id = subscribe(seven, filter=filter, start=offsets[0])
        expected = [] if "!=" in filter else offsets[:1]
        assert [one["offset"] for one in messages(seven, id) if one["offset"] in offsets] == expected, filter
        assert seven.put(f"/subscriptions/{id}", json={"filter": "TRUE"}).status_code == 200
        seven.delete(f"/subscriptions/{id}")
    lines = seven.post("/subscriptions/import", content=b'{"id": "seven-all", "filter": "TRUE"}')
    assert lines.status_code == 200


def test_rules_hold_for_questions(callers: Callers, seven: httpx.Client, offsets: list[int]) -> None:
    assert seven.post("/subscriptions/preview", json={"filter": "n = 1"}).json()["matched"] == 1
    body = {"filter": "TRUE"}
    for path in ("/subscriptions/explain", "/subscriptions/near-misses"):
        asked = [(body if "explain" in path else {}) | {"offset": at} for at in offsets]
        assert [seven.post(path, json=one).status_code for one in asked] == [200, 404, 404, 404], path
    # What is explained is the filter with the rule: an event of another tenant does not match.
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "tenant": 8}
    told = seven.post("/subscriptions/explain", json=body | {"event": event}).json()
    assert told["matched"] is False and "tenant" in told["filter"]
    told = seven.post("/subscriptions/explain", json=body | {"event": event | {"tenant": [7, 8]}}).json()
    assert told["matched"] is False
    assert "tenant" in seven.post("/subscriptions/validate", json=body).json()["filter"]


def test_near_misses_and_lint_look_at_ones_own_subscriptions(callers: Callers, seven: httpx.Client) -> None:
    other = callers.of(callers.token("other", ["subscribe"]))
    theirs = subscribe(other, filter="data.secret = 5 AND data.x > 5 AND data.x < 3")
    hidden = subscribe(other, filter="data.secret = 5")
    mine = subscribe(seven, filter="data.secret = 6")
    event = {"tenant": 7, "data": {"secret": 7}}
    near = seven.post("/subscriptions/near-misses", json={"event": event}).json()["near_misses"]
    assert mine in [one["subscription"] for one in near] and hidden not in [one["subscription"] for one in near]
    everybody = callers.admin.post("/subscriptions/near-misses", json={"event": event, "limit": 100}).json()
    assert {mine, hidden} <= {one["subscription"] for one in everybody["near_misses"]}
    assert theirs not in seven.get("/subscriptions/lint").text
    assert theirs in other.get("/subscriptions/lint").text


def test_rules_hold_for_statistics_and_dead_letters(callers: Callers, seven: httpx.Client) -> None:
    assert seven.get("/metrics").status_code == 403
    foreign = cloud_event(tenant=8)
    assert seven.post("/events", json=[foreign], headers=KIND).status_code == 422
    assert foreign["id"] in callers.admin.get("/dead-letters?limit=1000").text
    deep: object = 1
    for _ in range(100):
        deep = [deep]
    own = cloud_event(tenant=7, deep=deep)
    assert seven.post("/events", json=[own], headers=KIND).status_code == 422
    shown = seven.get("/dead-letters?limit=1000").text
    assert foreign["id"] not in shown


def test_rules_hold_for_streams(callers: Callers, seven: httpx.Client) -> None:
    with seven.stream("GET", "/stream", params={"filter": "m = 2"}) as stream:
        pieces = stream.iter_raw()
        next(pieces)
        callers.admin.post("/events", json=[cloud_event(tenant=8, m=2), cloud_event(tenant=[7, 8], m=2)], headers=KIND)
        last = cloud_event(tenant=7, m=2)
        callers.admin.post("/events", json=[last], headers=KIND)
        text = ""
        while last["id"] not in text:
            text += next(pieces).decode()
        assert text.count("data:") == 1


def test_rules_cannot_be_given_away(callers: Callers) -> None:
    for body in (
        {"name": "x", "scopes": ["admin"], "rules": {"tenant": 7}},
        {"name": "anonymous", "scopes": ["publish"]},
        {"name": "a.b", "scopes": ["publish"]},
        {"name": "x", "scopes": []},
        {"name": "x", "scopes": ["everything"]},
        {"name": "x", "scopes": ["publish"], "rules": {"tenant": [7]}},
    ):
        assert callers.admin.post("/tokens", json=body).status_code == 422, body
    assert callers.admin.put("/tokens/seven", json={"scopes": ["admin"], "rules": {"tenant": 7}}).status_code == 422


def test_a_changed_or_revoked_token_takes_effect_at_once(callers: Callers) -> None:
    token = callers.token("gone", ["subscribe"])
    client = callers.of(token)
    id = subscribe(client, filter="data.mark = 'gone'")
    with client.stream("GET", f"/subscriptions/{id}/stream") as stream:
        pieces = stream.iter_raw()
        next(pieces)
        changed = callers.admin.put("/tokens/gone", json={"scopes": ["subscribe"], "rules": {"tenant": 1}})
        assert changed.status_code == 204
        assert "token-changed" in b"".join(pieces).decode()
    callers.admin.post("/events", json={"mark": "gone"})
    assert messages(client, id) == []
    assert callers.admin.put("/tokens/gone", json={"scopes": ["subscribe"]}).status_code == 204
    callers.admin.post("/events", json={"mark": "gone"})
    assert len(messages(client, id)) == 1
    with client.stream("GET", f"/subscriptions/{id}/stream") as stream:
        pieces = stream.iter_raw()
        next(pieces)
        assert callers.admin.delete("/tokens/gone").status_code == 204
        assert "token-revoked" in b"".join(pieces).decode()
    assert client.get("/subscriptions").status_code == 401
    assert callers.admin.get(f"/subscriptions/{id}").status_code == 404


def test_revoking_an_admin_ends_what_it_reads_of_others(callers: Callers) -> None:
    helper = callers.token("helper", ["admin"])
    id = subscribe(callers.of(callers.token("reader", ["subscribe"])), filter="data.mark = 'helper'")
    callers.admin.post("/events", json={"mark": "helper"})
    url = callers.process.url.replace("http", "ws") + f"/subscriptions/{id}/ws?credit=0"
    with (
        connect(url, additional_headers={"authorization": f"Bearer {helper}"}, proxy=None) as waiting,
        callers.of(helper).stream("GET", "/stream") as stream,
    ):
        pieces = stream.iter_raw()
        next(pieces)
        assert callers.admin.delete("/tokens/helper").status_code == 204
        assert "token-revoked" in b"".join(pieces).decode()
        with pytest.raises(ConnectionClosed, match="token-revoked"):
            waiting.recv(20)


def test_the_first_token_ends_what_anybody_reads(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path) as process,
        httpx.Client(base_url=process.url, timeout=20, **PLAIN) as http,
        http.stream("GET", "/stream") as stream,
    ):
        pieces = stream.iter_raw()
        next(pieces)
        assert http.post("/tokens", json={"name": "root", "scopes": ["admin"]}).status_code == 201
        assert "token-changed" in b"".join(pieces).decode()
        assert http.get("/subscriptions").status_code == 401


def test_tenants_have_their_own_event_ids(callers: Callers) -> None:
    one, two = (callers.of(callers.token(name, ["publish"], tenant=name)) for name in ("ta", "tb"))
    kind = {"content-type": "application/cloudevents+json"}
    event = cloud_event()
    first = one.post("/events", json=event, headers=kind).json()["results"][0]
    second = two.post("/events", json=event, headers=kind).json()["results"][0]
    assert "duplicate" not in second and first["offset"] != second["offset"]
    assert one.post("/events", json=event, headers=kind).json()["results"][0]["duplicate"] is True


def test_off_loopback_needs_tokens(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path, host="0.0.0.0").start(wait=False)
    process.process.join(20)
    assert process.process.exitcode == 1


def test_events_and_costs_are_limited(tmp_path: Path) -> None:
    limits = {"events_per_second": 1.0, "filter_nanoseconds": 300.0, "token_nanoseconds": 300.0}
    with (
        BrokerProcess(tmp_path, **limits) as process,
        httpx.Client(base_url=process.url, timeout=120, **PLAIN) as http,
    ):
        expensive = " OR ".join(f"data.a{n} != {n}" for n in range(1_000))  # some 600 ns
        for path in ("/subscriptions", "/subscriptions/import"):
            refused = http.post(path, content=json.dumps({"filter": expensive}))
            assert refused.status_code == 422 and "filter-too-expensive" in refused.text, refused.text
        assert not http.post("/subscriptions/validate", json={"filter": expensive}).json()["valid"]
        assert http.get("/stream", params={"filter": expensive}).status_code == 422
        id = subscribe(http, filter="data.a = 5")
        assert http.put(f"/subscriptions/{id}", json={"filter": expensive}).status_code == 422
        # Many filters that are cheap enough alone are too much together.
        wide = " OR ".join(f"data.a{n} != {n}" for n in range(200))  # some 120 ns
        found = [http.post("/subscriptions", json={"filter": wide}) for _ in range(5)]
        assert {one.status_code for one in found} == {201, 429}
        assert int(found[-1].headers["retry-after"]) >= 1
        for one in found:
            if one.status_code == 201:
                http.delete(f"/subscriptions/{one.json()['id']}")
        assert http.post("/subscriptions", json={"filter": wide}).status_code == 201
        lines = b'{"a":1}\n' * 90  # a request larger than the rate passes once, and is paid for afterwards
        kind = {"content-type": "application/x-ndjson"}
        statuses = [http.post("/events", content=lines, headers=kind).status_code for _ in range(3)]
        assert statuses == [200, 429, 429]


def test_filters_that_python_must_try_on_every_event_are_limited_by_default(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path) as process,
        httpx.Client(base_url=process.url, timeout=120, **PLAIN) as http,
    ):
        regexes = [f"(?i)[ab]{{{1 + n % 50}}}[0-9]{{{1 + n // 50}}}" for n in range(4_000)]  # they want no letter
        lines = [json.dumps({"filter": f"data.name RLIKE '{regex}'"}) for regex in regexes]
        refused = http.post("/subscriptions/import", content="\n".join(lines))
        assert refused.status_code == 429 and int(refused.headers["retry-after"]) >= 1
        found = http.post("/subscriptions/import", content="\n".join(lines[:20]))
        assert found.status_code == 200 and "error" not in found.text, found.text
        assert subscribe(http, filter="data.name RLIKE 'a.*b'")


def test_requests_are_limited(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, requests_per_second=0.5) as process:
        found = [httpx.get(f"{process.url}/subscriptions", **PLAIN) for _ in range(20)]
        assert {one.status_code for one in found} == {200, 429}
        refused = next(one for one in found if one.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1
