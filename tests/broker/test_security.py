"""Who may do what: tokens, scopes, rules, loopback, limits."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.broker.processes import BrokerProcess
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
        client = httpx.Client(base_url=self.process.url, headers=headers, timeout=120, trust_env=False)
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


def test_without_tokens_only_loopback_names_may_call(broker: BrokerProcess, http: httpx.Client) -> None:
    port = broker.settings["port"]
    own = f"http://127.0.0.1:{port}"
    for host, origin, status in [
        (f"127.0.0.1:{port}", None, 200),
        (f"localhost:{port}", None, 200),
        (f"[::1]:{port}", None, 200),
        (f"127.0.0.1:{port}", own, 200),
        (f"evil.example:{port}", None, 403),
        (f"127.0.0.1.evil.example:{port}", None, 403),
        (f"127.0.0.1:{port}", "http://evil.example", 403),
        (f"127.0.0.1:{port}", "null", 403),
        (f"127.0.0.1:{port}", "http://127.0.0.1", 403),
    ]:
        headers = {"host": host} | ({} if origin is None else {"origin": origin})
        answer = http.get("/subscriptions", headers=headers)
        assert answer.status_code == status, (host, origin)
        assert "access-control-allow-origin" not in answer.headers


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
    answer = httpx.get(f"{callers.process.url}/subscriptions", headers=headers, trust_env=False)
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert httpx.get(f"{callers.process.url}/healthz", trust_env=False).status_code == 200


def test_secrets_are_shown_once_and_stored_as_digests(callers: Callers) -> None:
    token = callers.token("secret", ["publish"])
    secret = token.rpartition(".")[2]
    assert secret not in callers.admin.get("/tokens").text
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


def test_rules_hold_everywhere(callers: Callers) -> None:
    seven = callers.of(callers.token("seven", ["publish", "subscribe"], rules={"tenant": 7}))
    id = subscribe(seven, filter="tenant = 7 OR tenant = 8", start="now")
    kind = {"content-type": "application/cloudevents-batch+json"}
    batch = [cloud_event(tenant=7, n=1), cloud_event(tenant=8, n=1), cloud_event(tenant=[7, 8], n=1), cloud_event(n=1)]
    offsets = [one["offset"] for one in callers.admin.post("/events", json=batch, headers=kind).json()["results"]]
    assert [one["offset"] for one in messages(seven, id)] == offsets[:1]
    early = subscribe(seven, filter="n = 1", start="beginning")
    assert [one["offset"] for one in messages(seven, early)] == offsets[:1]
    assert seven.post("/subscriptions/preview", json={"filter": "n = 1"}).json()["matched"] == 1
    told = [seven.post("/subscriptions/explain", json={"filter": "TRUE", "offset": at}).status_code for at in offsets]
    assert told == [200, 404, 404, 404]
    assert seven.get("/metrics").status_code == 403
    mine = seven.post("/events", json=[cloud_event(tenant=7), cloud_event(tenant=8), cloud_event()], headers=kind)
    assert ["offset" in one for one in mine.json()["results"]] == [True, False, False]
    assert seven.get("/dead-letters").json()["dead_letters"] == []
    with seven.stream("GET", "/stream", params={"filter": "m = 2"}) as stream:
        pieces = stream.iter_raw()
        next(pieces)
        callers.admin.post("/events", json=[cloud_event(tenant=8, m=2), cloud_event(tenant=[7, 8], m=2)], headers=kind)
        last = cloud_event(tenant=7, m=2)
        callers.admin.post("/events", json=[last], headers=kind)
        text = ""
        while last["id"] not in text:
            text += next(pieces).decode()
        assert text.count("data:") == 1


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
    with client.stream("GET", f"/subscriptions/{id}/stream") as stream:
        pieces = stream.iter_raw()
        next(pieces)
        assert callers.admin.delete("/tokens/gone").status_code == 204
        assert "token-revoked" in b"".join(pieces).decode()
    assert client.get("/subscriptions").status_code == 401
    assert callers.admin.get(f"/subscriptions/{id}").status_code == 404


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
    limits = {"events_per_second": 1.0, "filter_nanoseconds": 2_000.0}
    with (
        BrokerProcess(tmp_path, **limits) as process,
        httpx.Client(base_url=process.url, timeout=120, trust_env=False) as http,
    ):
        expensive = " OR ".join(f"(data.a{n} LIKE '%x%y%' AND data.b{n} != {n})" for n in range(60))
        refused = http.post("/subscriptions", json={"filter": expensive})
        assert refused.json()["error"]["code"] == "filter-too-expensive", refused.text
        assert http.post("/subscriptions", json={"filter": "data.a = 5"}).status_code == 201
        lines = b'{"a":1}\n' * 90  # a request larger than the rate passes once, and is paid for afterwards
        kind = {"content-type": "application/x-ndjson"}
        statuses = [http.post("/events", content=lines, headers=kind).status_code for _ in range(3)]
        assert statuses == [200, 429, 429]


def test_requests_are_limited(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, requests_per_second=0.5) as process:
        found = [httpx.get(f"{process.url}/subscriptions", trust_env=False) for _ in range(20)]
        assert {one.status_code for one in found} == {200, 429}
        refused = next(one for one in found if one.status_code == 429)
        assert int(refused.headers["retry-after"]) >= 1


def test_slow_and_endless_heads_are_cut_off(broker: BrokerProcess) -> None:
    with socket.create_connection(("127.0.0.1", broker.settings["port"])) as connection:
        connection.settimeout(20)
        connection.sendall(b"GET / HTTP/1.1\r\n")
        with pytest.raises((ConnectionError, BrokenPipeError)):  # noqa: PT012
            for _ in range(10_000):
                connection.sendall(b"x-a: " + b"a" * 1000 + b"\r\n")
                time.sleep(0.001)
    assert httpx.get(f"{broker.url}/healthz", trust_env=False).status_code == 200


@pytest.mark.parametrize(
    "head",
    [
        b"GET /subscriptions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"GET /subscriptions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /events HTTP/1.1\r\nhost: 127.0.0.1\r\nce-id: 1\r\nce-id: 2\r\ncontent-length: 2\r\n\r\n{}",
        b"GET /subscriptions/%ff%00/messages HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"GET /subscriptions?after=%ff&limit=%00 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
        b"\x00\x01\x02 garbage\r\n\r\n",
    ],
)
def test_odd_requests_get_a_4xx(broker: BrokerProcess, head: bytes) -> None:
    with socket.create_connection(("127.0.0.1", broker.settings["port"])) as connection:
        connection.settimeout(20)
        connection.sendall(head)
        assert connection.recv(1000).startswith(b"HTTP/1.1 4")
