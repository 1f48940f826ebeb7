"""A store that refuses for a while: webhooks try again, and lose nothing. Its tables are taken away and put back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.broker.processes import BrokerProcess
from tests.broker.webhooks.receiver import Receiver
from tests.broker.webhooks.test_webhooks import SETTINGS, delivery, publish, subscribe, wait_for
from whimbrel.broker.webhooks.host_queues import PER_HOST


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("troubles"), **SETTINGS) as process:
        yield process
        assert process.stop() == 0


@contextmanager
def without_table(broker: BrokerProcess, table: str) -> Iterator[None]:
    path = Path(str(broker.settings["data"])) / "broker.sqlite"
    with closing(sqlite3.connect(path, timeout=30)) as store:
        store.execute(f"ALTER TABLE {table} RENAME TO away")
        try:
            yield
        finally:
            store.execute(f"ALTER TABLE away RENAME TO {table}")


def is_granted(http: httpx.Client, id: str) -> bool:
    return bool(delivery(http, id)["consent"] == "granted")


def troubles(http: httpx.Client) -> int:
    lines = http.get("/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith("whimbrel_webhook_troubles_total ")).split()[1]))


@pytest.mark.parametrize("table", ["sink_secrets", "webhook"])
def test_a_channel_that_cannot_be_loaded_is_loaded_later(http: httpx.Client, broker: BrokerProcess, table: str) -> None:
    with Receiver() as receiver:
        made = subscribe(http, receiver, table)
        wait_for(lambda: delivery(http, made["id"])["consent"] == "granted")
        broker.kill()
        broker.start()  # no channel is loaded
        with without_table(broker, table):
            publish(http, table, 2)
            wait_for(lambda: troubles(http) > 0)
            if table == "webhook":  # nor is known who has messages that wait
                broker.kill()
                broker.start()
                wait_for(lambda: troubles(http) > 0)
            assert receiver.got == []
        assert [got.json["data"]["n"] for got in receiver.wait(2)] == [0, 1]


@pytest.mark.parametrize("fields", [{}, {"protocolsettings": {"batch": 5}}], ids=["one by one", "in batches"])
def test_what_could_not_be_stored_is_stored_later(
    http: httpx.Client, broker: BrokerProcess, fields: dict[str, object]
) -> None:
    topic = f"kept{len(fields)}"
    with Receiver(lambda _: 410) as receiver:
        made = subscribe(http, receiver, topic, **fields)
        wait_for(lambda: delivery(http, made["id"])["consent"] == "granted")
        with without_table(broker, "attempt"):
            before = troubles(http)
            publish(http, topic)
            wait_for(lambda: troubles(http) > before)
        wait_for(lambda: delivery(http, made["id"])["state"] == "disabled")
        wait_for(lambda: len(http.get(f"/subscriptions/{made['id']}/attempts").json()["attempts"]) == 2)
        broker.kill()
        broker.start()
        assert delivery(http, made["id"])["state"] == "disabled" and len(receiver.got) == 1


def test_batches_that_cannot_be_planned_leave_their_turn_to_others(http: httpx.Client, broker: BrokerProcess) -> None:
    with Receiver() as receiver:
        many = [subscribe(http, receiver, "planned", protocolsettings={"batch": 5}) for _ in range(PER_HOST)]
        single = subscribe(http, receiver, "single")
        for made in (*many, single):
            wait_for(partial(is_granted, http, made["id"]))
        with without_table(broker, "webhook"):
            before = troubles(http)
            publish(http, "planned")
            wait_for(lambda: troubles(http) > before)
            publish(http, "single")
            (got,) = receiver.wait(1)
            assert got.json["data"]["topic"] == "single"
        assert len(receiver.wait(1 + PER_HOST)) == 1 + PER_HOST
