"""The third chapter of the demo: a broker that is killed, and loses nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from whimbrel.client import Client

_EVENTS = 400
_BATCH = 20


def play(console: Console) -> dict[str, int]:
    """Publish to a broker, follow a stream, kill the broker in between, and count what came."""
    from whimbrel.client import Client
    from whimbrel.lab.shop_broker import BROKER_TIMESTAMPS, import_sample
    from whimbrel.lab.web_shop import sample_events

    console.rule("A broker: publish, subscribe, kill -9, nothing lost")
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "whimbrel.cli.main", "serve", "--json", "--data", data, "--timestamps"]
        command += [",".join(BROKER_TIMESTAMPS), "--port"]
        broker, url = _start(command, 0)
        port = int(url.rpartition(":")[2])
        try:
            with Client(url, attempts=100) as client:
                count = import_sample(client)
                console.print(f"\n{count} subscriptions imported at {url}; one more is followed as a stream")
                id = client.create("data.price < 100")["id"]
                seen: list[int] = []
                following = threading.Thread(target=_follow, args=(url, id, seen), daemon=True)
                following.start()
                events = iter(sample_events())
                offsets: list[int | None] = []
                for number in range(0, _EVENTS, _BATCH):
                    if number == _EVENTS // 2:
                        broker.kill()
                        broker.wait()
                        console.print(f"killed with SIGKILL after {number} acknowledged events, {len(seen)} seen")
                        broker, _ = _start(command, port)
                    offsets += [result.offset for result in client.publish(list(islice(events, _BATCH)))]
                expected = _expected(client, id)
                deadline = time.monotonic() + 15
                while len(seen) < len(expected) and time.monotonic() < deadline:
                    time.sleep(0.05)
        finally:
            broker.kill()
            broker.wait()
    lost = len(set(expected) - set(seen))
    stored = len({offset for offset in offsets if offset is not None})
    console.print(f"{stored} events acknowledged, {len(expected)} of them match; the stream brought {len(seen)}")
    console.print(f"lost: {lost}, twice: {len(seen) - len(set(seen))}, in order: {seen == sorted(seen)}\n")
    return {"acknowledged": stored, "matched": len(expected), "delivered": len(seen), "lost": lost}


def _start(command: list[str], port: int) -> tuple[subprocess.Popen[bytes], str]:
    broker = subprocess.Popen([*command, str(port)], stderr=subprocess.PIPE)
    assert broker.stderr is not None
    return broker, str(json.loads(broker.stderr.readline())["address"])


def _follow(url: str, id: str, seen: list[int]) -> None:
    from whimbrel.client import Client

    with Client(url) as client:
        for message in client.subscribe(id=id):
            seen.append(message.offset)


def _expected(client: Client, id: str) -> list[int]:
    """The offsets of all messages of a subscription, from the log."""
    return [message.offset for message in client.pull(id, after=-1, limit=1000)]
