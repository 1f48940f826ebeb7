"""JSON lines over HTTP: they are published in groups while they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.inside import http_of, opened, run
from whimbrel.broker.http import exchange, guard, publish
from whimbrel.broker.http.publish import GROUP_LINES
from whimbrel.broker.requests import entries
from whimbrel.broker.requests.errors import BrokerError, Unavailable
from whimbrel.broker.sequencing.request_group import Published

LINES = {"content-type": "application/x-ndjson"}


def test_lines_that_come_at_once_are_published_in_groups_too(tmp_path: Path) -> None:
    """Retention finds the entry that names the tenant of an event only if not too many events follow it."""
    lines = 20_000

    async def work() -> None:
        async with opened(tmp_path) as broker, http_of(broker) as http:
            token = await broker.tokens.create("one", ["publish"], tenant="t1")
            headers = LINES | {"authorization": f"Bearer {token}"}
            answer = await http.post("/events", content=b"1\n" * lines, headers=headers)
            assert answer.status_code == 200 and len(answer.json()["results"]) == lines
            rows = [row for chunk in broker.log.chunks(0) for row in chunk if row[2] == entries.TENANT_EVENTS]
            counts = [entries.decode(row[2], row[3]).events for row in rows]  # type: ignore[union-attr]
            assert sum(counts) == lines and max(counts) <= GROUP_LINES

    run(work)


def test_a_stream_that_stops_to_come_is_told_what_was_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """408 would say that nothing was done, and clients would send all of it again."""
    monkeypatch.setattr(exchange, "BODY_SECONDS", 0.2)

    async def stalled(first: bytes) -> AsyncIterator[bytes]:
        yield first
        await asyncio.Event().wait()

    async def work() -> None:
        async with opened(tmp_path) as broker, http_of(broker) as http:
            answer = await http.post("/events", content=stalled(b"1\n" * (GROUP_LINES + 1)), headers=LINES)
            assert answer.status_code == 200, answer.text
            *taken, last = answer.json()["results"]
            assert [one["offset"] for one in taken] == list(range(GROUP_LINES)) and last["error"]["code"] == "timeout"
            assert (await http.post("/events", content=stalled(b"1\n"), headers=LINES)).status_code == 408
            assert broker.end == GROUP_LINES

    run(work)


def test_results_that_wait_are_bounded_too(tmp_path: Path) -> None:
    """A line of two bytes that is refused makes a result of more than a hundred."""

    async def work() -> None:
        async with opened(tmp_path, bodies_bytes=4 << 20) as broker, http_of(broker) as http:
            answer = await http.post("/events", content=b"x\n" * 100_000, headers=LINES)
            assert len(answer.content) < 4 << 20 and answer.status_code == 422
            codes = [one["error"]["code"] for one in answer.json()["results"]]
            assert codes[-1] == "unavailable" and set(codes[:-1]) == {"invalid-event"}
            assert (await http.post("/events", content=b"1\n", headers=LINES)).status_code == 200

    run(work)


def test_a_group_that_waits_for_the_queue_is_charged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "monotonic", lambda: 0.0)  # what is used of the rate does not come back
    monkeypatch.setattr(publish, "PATIENCE_SECONDS", 2.0)

    async def work() -> None:
        async with opened(tmp_path, events_per_second=float(GROUP_LINES)) as broker, http_of(broker) as http:
            take, tries = broker.publish, 0

            async def full_once(*arguments: Any) -> list[Published | BrokerError]:
                nonlocal tries
                tries += 1
                if tries == 2:
                    raise Unavailable("Expected room in the queue")
                return await take(*arguments)

            monkeypatch.setattr(broker, "publish", full_once)
            answer = await http.post("/events", content=b"1\n" * 2 * GROUP_LINES, headers=LINES)
            assert tries == 3 and [one for one in answer.json()["results"] if "error" in one] == []

    run(work)
