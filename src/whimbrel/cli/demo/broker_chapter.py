"""The third chapter of the demo: a broker that is killed, and loses nothing."""

from __future__ import annotations

import tempfile
import threading
import time
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_EVENTS = 400
_BATCH = 20
_PATIENCE = 30.0
"""Seconds until the stream must have brought everything."""


def play(console: Console) -> dict[str, int]:
    """Publish to a broker, follow a stream, kill the broker in between, and count what came."""
    from whimbrel.client import Client
    from whimbrel.lab.measure.broker_process import BrokerProcess
    from whimbrel.lab.shop_broker import BROKER_TIMESTAMPS, import_sample
    from whimbrel.lab.web_shop import sample_events

    console.rule("A broker: publish, subscribe, kill -9, nothing lost")
    settings = {"WHIMBREL_TIMESTAMPS": ",".join(BROKER_TIMESTAMPS)}
    with (
        tempfile.TemporaryDirectory() as data,
        BrokerProcess(Path(data), settings) as broker,
        Client(broker.url, attempts=100) as client,
    ):
        count = import_sample(client)
        console.print(f"\n{count} subscriptions imported at {broker.url}; one more is followed as a stream")
        id = client.create("data.price < 100")["id"]
        seen: list[int] = []
        threading.Thread(target=_follow, args=(broker.url, id, seen), daemon=True).start()
        events = iter(sample_events())
        offsets: list[int | None] = []
        for number in range(0, _EVENTS, _BATCH):
            if number == _EVENTS // 2:
                broker.kill()
                console.print(f"killed with SIGKILL after {number} acknowledged events, {len(seen)} seen")
                broker.start(broker.port)
            offsets += [result.offset for result in client.publish(list(islice(events, _BATCH)))]
        expected = [message.offset for message in client.pull(id, after=-1, limit=1000)]  # from the log
        deadline = time.monotonic() + _PATIENCE
        while len(seen) < len(expected) and time.monotonic() < deadline:
            time.sleep(0.05)
    lost = len(set(expected) - set(seen))
    stored = len({offset for offset in offsets if offset is not None})
    console.print(f"{stored} events acknowledged, {len(expected)} of them match; the stream brought {len(seen)}")
    console.print(f"lost: {lost}, twice: {len(seen) - len(set(seen))}, in order: {seen == sorted(seen)}\n")
    return {"acknowledged": stored, "matched": len(expected), "delivered": len(seen), "lost": lost}


def _follow(url: str, id: str, seen: list[int]) -> None:
    from whimbrel.client import Client

    with Client(url) as client:
        for message in client.subscribe(id=id):
            seen.append(message.offset)
