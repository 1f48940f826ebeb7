"""A broker whose log got another id goes on: subscriptions, cursors and ids of events are there."""

from __future__ import annotations

from pathlib import Path

from tests.broker.processes import BrokerProcess
from whimbrel.broker.backup.restoring import renew
from whimbrel.client import Client
from whimbrel.log import LogReader


def test_a_broker_goes_on_under_another_id(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path)
    event = {"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": {"price": 3}}
    with process, Client(process.url) as client:
        id = client.create("data.price < 5")["id"]
        first = client.publish([event])[0].offset
        process.stop()
    with LogReader(tmp_path / "log") as reader:
        former = reader.id
    assert renew(tmp_path) != former
    with process, Client(process.url) as client:
        assert client.publish([event])[0].duplicate
        second = client.publish([{"price": 4}])[0].offset
        assert [message.offset for message in client.pull(id)] == [first, second]
