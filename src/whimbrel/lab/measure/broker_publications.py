"""Publications: how many durable updates a broker takes while their subscriptions are told who enters and leaves.

Things move at random over a square, and each subscription is a small box in it that is told of enters and leaves. The
updates come as JSON lines over some connections, nobody reading.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.lab.measure.broker_process import LINES, BrokerProcess

_SIDE, _BOX, _STEP = 1_000.0, 20.0, 10.0
_PATH, _CONNECTIONS = "/publications", 4


def measure_publications(directory: Path, subscriptions: int, keys: int, updates: int, batch: int) -> dict[str, Any]:
    """Updates per second, and how many notifications each of them makes."""
    chance = random.Random(1)
    with BrokerProcess(directory) as broker:
        asyncio.run(broker.import_lines(_boxes(chance, subscriptions)))
        places = [(chance.uniform(0, _SIDE), chance.uniform(0, _SIDE)) for _ in range(keys)]
        asyncio.run(broker.post_all(_PATH, _bodies(chance, places, keys, batch), LINES, _CONNECTIONS))
        bodies = _bodies(chance, places, updates, batch)
        broker.settle()
        broker_before, client_before, told = broker.cpu_seconds(), time.process_time(), _told(broker)
        seconds = asyncio.run(broker.post_all(_PATH, bodies, LINES, _CONNECTIONS))
        broker_cpu, client_cpu = broker.cpu_seconds() - broker_before, time.process_time() - client_before
        told = _told(broker) - told
    return {
        "subscriptions": subscriptions,
        "publications": keys,
        "updates": updates,
        "batch": batch,
        "updates_per_second": round(updates / seconds),
        "notifications_per_update": round(told / updates, 2),
        "broker_us_per_update": round(broker_cpu / updates * 1e6, 1),
        "client_us_per_update": round(client_cpu / updates * 1e6, 1),
    }


def _boxes(chance: random.Random, count: int) -> list[bytes]:
    lines = []
    for _ in range(count):
        x, y = chance.uniform(0, _SIDE), chance.uniform(0, _SIDE)
        box = f"x BETWEEN {x:.1f} AND {x + _BOX:.1f} AND y BETWEEN {y:.1f} AND {y + _BOX:.1f}"
        lines.append(msgspec.json.encode({"filter": box, "on": "publications", "leave": True}))
    return lines


def _bodies(chance: random.Random, places: list[tuple[float, float]], count: int, batch: int) -> list[bytes]:
    """Bodies of updates in which things take a step; if there are as many as things, each takes one."""
    chosen = list(range(len(places))) if count == len(places) else chance.choices(range(len(places)), k=count)
    lines: list[bytes] = []
    for number in chosen:
        x, y = places[number]
        x, y = x + chance.uniform(-_STEP, _STEP), y + chance.uniform(-_STEP, _STEP)
        places[number] = x, y
        state = {"x": round(x, 2), "y": round(y, 2), "name": f"taxi {number}", "free": number % 2 == 0}
        lines.append(msgspec.json.encode({"key": f"taxi {number}", "state": state}))
    return [b"\n".join(lines[start : start + batch]) for start in range(0, len(lines), batch)]


def _told(broker: BrokerProcess) -> float:
    """How many notifications the broker has made so far."""
    found = re.search(r"^whimbrel_publication_notifications_total (\S+)", broker.metrics(), re.MULTILINE)
    assert found is not None, "expected a count of notifications among the metrics"
    return float(found[1])
