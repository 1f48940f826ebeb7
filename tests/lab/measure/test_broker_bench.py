"""The benchmark of the broker counts what it sent and what arrived, with a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from whimbrel.lab.measure import broker_bench
from whimbrel.lab.measure.benchmark_results import no_progress
from whimbrel.lab.measure.broker_process import BrokerProcess
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
    assert row["broker_us_per_delivery"] > 0
