"""The benchmark of the broker counts what it sent and what arrived, with a real broker."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from whimbrel.lab.measure import broker_bench, broker_streams
from whimbrel.lab.measure.benchmark_results import no_progress
from whimbrel.lab.measure.broker_process import BrokerFailed, BrokerProcess
from whimbrel.lab.measure.broker_publications import measure_publications
from whimbrel.lab.measure.broker_streams import measure_streams, sent_times
from whimbrel.lab.measure.broker_webhooks import measure_webhooks

TINY = broker_bench.BrokerSizes(
    subscriptions=200, events=400, batch=100, single_publishes=20, streams=3, fan_out=20, many=200, entries=1_000
)


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BrokerProcess, "settle", lambda self: None)  # nothing is merged at this size


def test_all_events_are_published(tmp_path: Path) -> None:
    row = broker_bench.measure_publish("hm", TINY, tmp_path / "data", no_progress)
    assert (row["subscriptions"], row["events"]) == (200, 400) and row["events_per_second"] > 0
    assert row["broker_us_per_event"] >= 0  # the system counts steps of 10 ms


def test_every_stream_gets_every_event(tmp_path: Path) -> None:
    row = measure_streams(tmp_path / "data", streams=3, per_second=100, count=20)
    assert row["streams"] == 3 and 0 < row["p50_ms"] <= row["p99_ms"]
    assert 0 < row["deliveries_per_second"] <= 3 * 110 and row["messages_per_read"] >= 0.5


def test_an_event_counts_once_wherever_a_stream_is_cut() -> None:
    text = b"".join(b'id: %d\ndata: {"data":{"bench":1,"sent":%d.25}}\n\n' % (n, n) for n in range(3))
    for cut in range(len(text)):
        first, rest = sent_times(text[:cut])
        second, _ = sent_times(rest + text[cut:])
        assert first + second == [0.25, 1.25, 2.25], text[:cut]


def test_updates_of_publications_are_told(tmp_path: Path) -> None:
    row = measure_publications(tmp_path / "data", subscriptions=500, keys=50, updates=100, batch=20)
    assert row["updates_per_second"] > 0 and row["notifications_per_update"] > 0


def test_every_webhook_gets_every_event(tmp_path: Path) -> None:
    row = measure_webhooks(tmp_path / "data", subscriptions=3, events=40, batch=10)
    assert row["deliveries_per_second"] > 0 and 1 <= row["events_per_request"] <= 10
    assert row["broker_us_per_delivery"] >= 0  # the system counts steps of 10 ms


def test_a_broker_that_does_not_start_is_told_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(BrokerFailed, match=r"Expected a broker to start, but it ended: .*nope"):
        BrokerProcess(tmp_path / "data", {"WHIMBREL_LOG": "nope"}).start()


def test_a_stream_that_ends_early_ends_the_measurement() -> None:
    class Ending:
        """In the place of a broker: its streams end at once."""

        host, cpu_seconds = "127.0.0.1", staticmethod(lambda: 0.0)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer):
            head = await reader.readuntil(b"\r\n\r\n")
            if head.startswith(b"GET"):
                writer.write(b": whimbrel\n\n")
            else:
                await reader.read()  # no answer

    async def measure() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            broker: Any = Ending()
            broker.port = server.sockets[0].getsockname()[1]
            with pytest.raises(BrokerFailed, match="it ended after 0"):
                await broker_streams._measured(broker, streams=1, per_second=1_000, count=5)
            await asyncio.sleep(0.1)  # connections are closed in the next rounds of the loop

    asyncio.run(measure())
