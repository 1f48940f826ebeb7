"""The broker over HTTP: every way to publish, the life of a subscription, pull and acknowledge."""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import msgspec
import pytest


def cloud_event(id: str | None = None, **attributes: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": id or uuid.uuid4().hex, "source": "test", "type": "order", **attributes}


def subscribe(http: httpx.Client, **fields: Any) -> str:
    answer = http.post("/subscriptions", json=fields)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def messages(http: httpx.Client, id: str, **query: Any) -> list[dict[str, Any]]:
    answer = http.get(f"/subscriptions/{id}/messages", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["messages"]
    return found


def test_every_form_of_an_event_is_seen_as_a_cloud_event(http: httpx.Client) -> None:
    mark = uuid.uuid4().hex
    id = subscribe(http, filter=f"data.mark = '{mark}'")
    data = {"mark": mark}
    structured = cloud_event(data=data)
    forms: list[tuple[dict[str, str], bytes]] = [
        ({"content-type": "application/cloudevents+json"}, msgspec.json.encode(structured)),
        ({"content-type": "application/cloudevents-batch+json"}, msgspec.json.encode([cloud_event(data=data)] * 2)),
        ({"content-type": "application/json"}, msgspec.json.encode(data)),
        ({}, msgspec.json.encode(data)),
        (
            {"content-type": "application/x-ndjson"},
            msgspec.json.encode(data) + b"\n\n" + msgspec.json.encode(cloud_event(data=data)),
        ),
        (
            {
                "content-type": "application/json",
                "ce-specversion": "1.0",
                "ce-id": "b%20%C3%A9",
                "ce-source": mark,
                "ce-type": "binary",
                "ce-ext1": "x",
            },
            msgspec.json.encode(data),
        ),
    ]
    for headers, content in forms:
        answer = http.post("/events", content=content, headers=headers)
        assert answer.status_code == 200, answer.text
    events = [one["event"] for one in messages(http, id)]
    assert len(events) == 7
    assert events[0] == structured
    assert all(one["specversion"] == "1.0" and one["data"] == data for one in events)
    assert events[2]["source"] == "anonymous" and events[2]["type"] == "event"
    assert events[-1]["id"] == "b é" and events[-1]["ext1"] == "x"


def test_other_content_in_binary_mode(http: httpx.Client) -> None:
    mark = uuid.uuid4().hex
    id = subscribe(http, filter=f"source = '{mark}'")
    headers = {"ce-specversion": "1.0", "ce-source": mark, "ce-type": "t"}
    for number, (kind, content) in enumerate(
        [("text/plain", "grüß".encode()), ("image/png", b"\x89\x00"), ("text/plain", b"\xff"), ("text/plain", b"")]
    ):
        answer = http.post("/events", content=content, headers={**headers, "content-type": kind, "ce-id": str(number)})
        assert answer.status_code == 200, answer.text
    events = [one["event"] for one in messages(http, id)]
    assert events[0]["data"] == "grüß" and events[1]["data_base64"] == "iQA=" and events[2]["data_base64"] == "/w=="
    assert "data" not in events[3] and events[3]["datacontenttype"] == "text/plain"


@pytest.mark.parametrize(
    ("expires", "status"),
    [
        ("9999-12-31T23:59:59.999999Z", 201),
        ("9999-12-31T23:59:59-00:01", 422),
        ("0001-01-01T00:00:00+00:01", 422),
        ("2020-01-01", 422),
        ("tomorrow", 422),
    ],
)
def test_an_expiry_is_a_time_that_can_be_shown_again(http: httpx.Client, expires: str, status: int) -> None:
    answer = http.post("/subscriptions", json={"filter": "FALSE", "expires": expires})
    assert answer.status_code == status, answer.text
    assert http.get("/subscriptions", params={"limit": 1000}).status_code == 200
    if status == 201:
        id = answer.json()["id"]
        assert http.get(f"/subscriptions/{id}").json()["expires"] == expires
        assert http.delete(f"/subscriptions/{id}").status_code == 204


def test_results_are_told_event_by_event(http: httpx.Client) -> None:
    good, id = cloud_event(), uuid.uuid4().hex
    batch = [good, good, {"id": 3}, cloud_event(id, specversion="0.3"), cloud_event(whimbrelcursor="1")]
    answer = http.post("/events", json=batch, headers={"content-type": "application/cloudevents-batch+json"})
    first, again, *bad = answer.json()["results"]
    assert answer.status_code == 200
    assert again == {"offset": first["offset"], "duplicate": True}
    assert [one["error"]["code"] for one in bad] == ["invalid-event"] * 3
    answer = http.post("/events", json=[{"id": 3}], headers={"content-type": "application/cloudevents-batch+json"})
    assert answer.status_code == 422 and "error" in answer.json()["results"][0]
    empty = http.post("/events", json=[], headers={"content-type": "application/cloudevents-batch+json"})
    assert (empty.status_code, empty.json()) == (200, {"results": []})


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        ({"content-type": "application/cloudevents-batch+json"}, b"{}", 400),
        ({"content-type": "application/cloudevents-batch+json"}, b"[", 400),
        ({"content-type": "application/cloudevents+avro"}, b"x", 415),
        ({"content-type": "application/xml"}, b"<a/>", 415),
        ({"content-type": "application/json"}, b"{", 422),
        ({"content-type": "application/json"}, b'{} , "id": "injected"', 422),
        ({"content-type": "application/json"}, b'"\xff"', 422),
        (
            {"content-type": "application/cloudevents+json"},
            b'{"specversion":"1.0","id":"1","source":"\xff","type":"t"}',
            422,
        ),
        ({"content-type": "application/json", "ce-id": "1"}, b"{}", 422),
        ({"content-type": "application/json", "ce-data": "1"}, b"{}", 422),
        ({"content-type": "application/json", "content-encoding": "gzip"}, b"\x1f\x8b", 415),
        ({"content-type": "application/json"}, b"[" * 100_000, 422),
    ],
)
def test_bad_publishes_are_refused(http: httpx.Client, headers: dict[str, str], content: bytes, status: int) -> None:
    answer = http.post("/events", content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert "Expected" in answer.text


def test_large_bodies_and_events_are_refused(http: httpx.Client) -> None:
    answer = http.post("/events", content=b" " * (17 << 20), headers={"content-type": "application/json"})
    assert answer.status_code == 413
    big = http.post("/events", json={"x": "y" * (1 << 20)})
    assert big.json()["results"][0]["error"]["code"] == "too-large"


def test_the_life_of_a_subscription(http: httpx.Client) -> None:
    made = http.post(
        "/subscriptions",
        json={
            "types": ["order"],
            "filters": [{"prefix": {"source": "te"}}],
            "filter": "data.n < 5",
            "config": {"a": 1},
        },
    )
    assert made.status_code == 201
    id, tag = made.json()["id"], made.headers["etag"]
    assert made.headers["location"] == f"/subscriptions/{id}" and made.json()["config"] == {"a": 1}
    http.post("/events", json=cloud_event(data={"n": 1}), headers={"content-type": "application/cloudevents+json"})
    read = http.get(f"/subscriptions/{id}")
    assert read.json()["lag"] == 1 and read.headers["etag"] == tag
    changed = http.put(f"/subscriptions/{id}", json={"filter": "TRUE"}, headers={"if-match": tag})
    assert changed.status_code == 200 and changed.headers["etag"] != tag
    assert http.put(f"/subscriptions/{id}", json={"filter": "TRUE"}, headers={"if-match": tag}).status_code == 412
    assert http.delete(f"/subscriptions/{id}", headers={"if-match": tag}).status_code == 412
    assert http.delete(f"/subscriptions/{id}").status_code == 204
    assert http.get(f"/subscriptions/{id}").status_code == 404
    assert http.delete(f"/subscriptions/{id}").status_code == 404
    assert http.put(f"/subscriptions/{id}", json={}).status_code == 404


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"filter": "data.n <<"}, "invalid-filter"),
        ({"filter": "TRUE", "dialect": "klingon"}, "invalid-filter"),
        ({"dialect": "sql"}, "invalid-subscription"),
        ({"filters": [{"sql": "TRUE"}]}, "unsupported-dialect"),
        ({"protocol": "MQTT5"}, "unsupported-protocol"),
        ({"sink": "https://example.org/"}, "unsupported-sink"),
        ({"types": [5]}, "invalid-subscription"),
        ({"surprise": 1}, "invalid-subscription"),
        ({"start": 1 << 40}, "bad-offset"),
        ({"start": "someday"}, "invalid-time"),
        ({"expires": "2001-01-01"}, "invalid-subscription"),
        ({"filter": " OR ".join(f"(a{n} = 1 AND b{n} = 2)" for n in range(20)) + " AND x"}, None),
        ({"filter": " AND ".join(f"(a{n} = 1 OR b{n} = 2)" for n in range(30))}, "limit-exceeded"),
    ],
)
def test_bad_subscriptions_are_refused(http: httpx.Client, body: dict[str, Any], code: str | None) -> None:
    answer = http.post("/subscriptions", json=body)
    if code is None:
        assert answer.status_code == 201, answer.text
        http.delete(f"/subscriptions/{answer.json()['id']}")
    else:
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, code), answer.text


def test_pull_and_acknowledge(http: httpx.Client) -> None:
    mark = uuid.uuid4().hex
    id = subscribe(http, filter=f"data.mark = '{mark}'")
    lines = b"\n".join(msgspec.json.encode({"mark": mark, "n": n}) for n in range(10))
    results = http.post("/events", content=lines, headers={"content-type": "application/x-ndjson"}).json()["results"]
    offsets = [one["offset"] for one in results]
    assert [one["offset"] for one in messages(http, id)] == offsets
    assert [one["offset"] for one in messages(http, id, limit=3)] == offsets[:3]
    assert [one["offset"] for one in messages(http, id, after=offsets[6])] == offsets[7:]
    assert [one["offset"] for one in messages(http, id, after=f"{offsets[6]}.0")] == offsets[7:]
    assert [one["cursor"] for one in messages(http, id, limit=1)] == [str(offsets[0])]
    assert http.post(f"/subscriptions/{id}/ack", json={"offset": offsets[1]}).json() == {"cursor": str(offsets[1])}
    assert [one["offset"] for one in messages(http, id)] == offsets[2:]
    acked = http.post(f"/subscriptions/{id}/ack", json={"cursor": f"{offsets[4]}.0"})
    assert acked.json() == {"cursor": f"{offsets[4]}.0"}
    assert [one["offset"] for one in messages(http, id)] == offsets[5:]
    assert messages(http, id, after=offsets[-1], wait=0.1) == []
    for bad in ({"offset": 1 << 60}, {"offset": -5}, {"cursor": "x"}):
        assert http.post(f"/subscriptions/{id}/ack", json=bad).status_code == 422
    for query in ("limit=0", "limit=1001", "limit=x", "wait=-1", "wait=nan", "limit=1.5"):
        assert http.get(f"/subscriptions/{id}/messages?{query}").status_code == 400
    for query in ("after=x", "after=1.2.3", "after=", "after=-2"):
        assert http.get(f"/subscriptions/{id}/messages?{query}").status_code == 422


def test_lists_pages_imports_and_exports(http: httpx.Client) -> None:
    lines = b"\n".join(
        msgspec.json.encode({"id": f"bulk-{n:03}", "filter": f"data.bulk = {n}", "protocol": "SSE"}) for n in range(25)
    )
    found = http.post("/subscriptions/import", content=lines).json()["results"]
    assert [one["id"] for one in found] == [f"bulk-{n:03}" for n in range(25)]
    seen: list[str] = []
    after = "bulk-"
    while after is not None:
        page = http.get("/subscriptions", params={"after": after, "limit": 10, "protocol": "SSE"}).json()
        seen += [one["id"] for one in page["subscriptions"] if one["id"].startswith("bulk-")]
        after = page["next"]
    assert seen == [f"bulk-{n:03}" for n in range(25)]
    exported = [msgspec.json.decode(line) for line in http.get("/subscriptions/export").content.splitlines()]
    assert {"id": "bulk-007", "filter": "data.bulk = 7", "protocol": "SSE"} in exported
    again = http.post("/subscriptions/import", content=lines)
    assert again.status_code == 422
    assert {one["error"]["code"] for one in again.json()["results"]} == {"conflict"}


def test_a_list_can_be_queried(http: httpx.Client) -> None:
    mark = uuid.uuid4().hex
    asked = [
        {"source": mark, "types": ["order", "refund"], "protocol": "WS"},
        {"source": mark, "types": ["refund"], "filter": f"data.mark = '{mark}'"},
        {"types": ["order"], "filter": "data.other = 1"},
    ]
    ids = [subscribe(http, **fields) for fields in asked]

    def found(**query: str) -> set[str]:
        seen: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            page = http.get("/subscriptions", params={**query, "after": after, "limit": 1}).json()
            seen += page["subscriptions"]
            after = page["next"]
        assert [one["id"] for one in seen] == sorted(one["id"] for one in seen)
        return {one["id"] for one in seen}

    assert found(source=mark) == set(ids[:2])
    assert found(source=mark, type="order") == {ids[0]} == found(source=mark, protocol="WS")
    assert found(contains=mark) == {ids[1]} and set(ids) <= found(owner="anonymous")
    assert found(owner="nobody") == set() == found(protocol="XX")


def test_an_update_names_the_versions_that_it_replaces(http: httpx.Client) -> None:
    made = http.post("/subscriptions", json={"filter": "TRUE"})
    id, tag = made.json()["id"], made.headers["etag"]
    assert tag == f'"{made.json()["version"]}"'
    for condition, status in [('"0"', 412), (f"W/{tag}", 412), ("", 412), (f'"0", {tag}', 200), ("*", 200), (tag, 412)]:
        answer = http.put(f"/subscriptions/{id}", json={"filter": "FALSE"}, headers={"if-match": condition})
        assert answer.status_code == status, condition
    assert (
        http.delete(f"/subscriptions/{id}", headers={"if-match": answer.headers.get("etag", '"0"')}).status_code == 412
    )


def test_what_was_exported_can_be_imported(http: httpx.Client) -> None:
    fields = {"filter": "data.a = 1", "config": {"x": [1]}, "expires": "2999-01-01T00:00:00Z", "types": ["t"]}
    id = subscribe(http, start="beginning", **fields)
    lines = [line for line in http.get("/subscriptions/export").content.splitlines() if id.encode() in line]
    assert http.delete(f"/subscriptions/{id}").status_code == 204
    assert http.post("/subscriptions/import", content=lines[0]).json() == {"results": [{"id": id}]}
    again = http.get(f"/subscriptions/{id}").json()
    assert {name: again[name] for name in fields} == fields


def test_validate_explain_preview_and_lint(http: httpx.Client) -> None:
    valid = http.post("/subscriptions/validate", json={"filter": "data.n BETWEEN 1 AND 5"}).json()
    assert valid["valid"] and valid["attributes"] == ["data.n"] and valid["cost"]["nanoseconds"] >= 0
    invalid = http.post("/subscriptions/validate", json={"filter": "data.n <"}).json()
    assert not invalid["valid"] and invalid["error"]["column"] == 9
    for bad in ({"expires": "2001-01-01"}, {"start": 1 << 40}, {"start": "someday"}, {"protocol": "HTTP"}, {"x": 1}):
        assert http.post("/subscriptions/validate", json=bad).json()["valid"] is False
    mark = uuid.uuid4().hex
    offset = http.post("/events", json={"mark": mark, "n": 3}).json()["results"][0]["offset"]
    told = http.post("/subscriptions/explain", json={"filter": "data.n > 5", "offset": offset}).json()
    assert told["matched"] is False and told["conjunctions"][0]["constraints"][0]["seen"] == [3]
    told = http.post("/subscriptions/explain", json={"filter": "a > 5", "event": {"a": 9}}).json()
    assert told["matched"] is True
    id = subscribe(http, filter=f"data.mark = '{mark}'")
    assert http.post(f"/subscriptions/{id}/explain", json={"offset": offset}).json()["matched"] is True
    assert http.post(f"/subscriptions/{id}/explain", json={"offset": 1 << 40}).status_code == 404
    seen = http.post("/subscriptions/preview", json={"filter": f"data.mark = '{mark}'"}).json()
    assert seen["matched"] == 1 and seen["messages"][0]["offset"] == offset
    never = subscribe(http, filter="data.n > 5 AND data.n < 3")
    findings = http.get("/subscriptions/lint").json()["findings"]
    assert {"id": never, "rule": "unsatisfiable", "message": "no event can match"} in findings


def test_health_metrics_and_documents(http: httpx.Client) -> None:
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/readyz").json() == {"ready": True, "engine": {"name": "inline", "state": "running"}}
    http.post("/events", json={"a": 1})
    shown = http.get("/metrics").text
    assert "whimbrel_published_events_total" in shown and "whimbrel_publish_seconds_bucket" in shown
    assert 'whimbrel_stage_seconds_count{stage="disk"}' in shown and "whimbrel_ids_in_memory" in shown
    document = http.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0" and "/subscriptions/{id}/messages" in document["paths"]
    names = [one["operationId"] for methods in document["paths"].values() for one in methods.values()]
    assert len(set(names)) == len(names) > 20
    page = http.get("/docs")
    assert all(path in page.text for path in document["paths"])
    assert "http:" not in page.text and "https:" not in page.text and "<script" not in page.text  # needs no network
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert http.get("/").headers["content-type"].startswith("text/html")
    assert http.get("/nowhere").status_code == 404 and http.get("/subscriptions/").status_code == 404
    refused = http.delete("/subscriptions")
    assert refused.status_code == 405 and {"GET", "POST"} <= set(refused.headers["allow"].split(", "))
