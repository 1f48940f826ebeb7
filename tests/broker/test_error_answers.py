"""What the application answers when something goes wrong: whose fault it is, and what is logged."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.broker.inside import app_of, event, http_of, opened, publish, run, subscribe
from whimbrel.log import CorruptLog

SHOP = 'type_attribute = "type"\n[attributes]\n"data.price" = "decimal"\n[types.offer]\n"data.price" = "mandatory"\n'


def test_data_that_cannot_be_read_is_no_fault_of_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise CorruptLog(tmp_path / "log", "a page is torn")

    async def work() -> None:
        async with opened(tmp_path) as broker, http_of(broker) as http:
            held = await subscribe(broker, "TRUE")
            await publish(broker, event(1))
            monkeypatch.setattr(broker.messages, "read", broken)
            answer = await http.get(f"/subscriptions/{held.id}/messages")
            assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal-error")
            assert "torn" not in answer.text and "torn" in caplog.text

    run(work)


def test_a_websocket_that_fails_says_so_and_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise CorruptLog(tmp_path / "log", "a page is torn")

    async def work() -> None:
        async with opened(tmp_path) as broker:
            held = await subscribe(broker, "TRUE")
            monkeypatch.setattr(broker.messages, "read", broken)
            sent: list[dict[str, Any]] = []
            coming = [{"type": "websocket.connect"}]

            async def receive() -> Any:
                return coming.pop() if coming else await asyncio.Event().wait()

            async def send(message: Any) -> None:
                sent.append(message)

            scope = {
                "type": "websocket",
                "scheme": "ws",
                "path": f"/subscriptions/{held.id}/ws",
                "root_path": "",
                "query_string": b"",
                "headers": [(b"host", b"127.0.0.1")],
                "subprotocols": [],
            }
            await app_of(broker)(scope, receive, send)
            assert [one["type"] for one in sent] == ["websocket.accept", "websocket.close"]
            assert (sent[1]["code"], sent[1]["reason"]) == (1011, "internal-error") and "torn" in caplog.text

    run(work)


def test_an_event_that_does_not_fit_the_schema_is_an_invalid_event(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(SHOP)

    async def work() -> None:
        async with opened(tmp_path / "data", schema=str(file)) as broker, http_of(broker) as http:
            context = {"specversion": "1.0", "id": "1", "source": "s", "type": "offer"}
            asked = {"filter": "data.price > 1", "event": context}
            answer = await http.post("/subscriptions/explain", json=asked)
            assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid-event"), answer.text
            asked["event"] = {**context, "data": {"price": 2}}
            assert (await http.post("/subscriptions/explain", json=asked)).json()["matched"] is True

    run(work)


def test_only_who_may_waive_consent_is_told_that_a_waiver_is_valid(tmp_path: Path) -> None:
    asked = {"sink": "https://example.org/", "protocol": "HTTP", "protocolsettings": {"consent": "waived"}}

    async def work() -> None:
        async with opened(tmp_path) as broker, http_of(broker) as http:
            for scope, status, is_valid in (("subscribe", 403, False), ("admin", 201, True)):
                token = await broker.tokens.create(scope, [scope])
                http.headers["authorization"] = f"Bearer {token}"
                assert (await http.post("/subscriptions/validate", json=asked)).json()["valid"] is is_valid
                assert (await http.post("/subscriptions", json=asked)).status_code == status

    run(work)
