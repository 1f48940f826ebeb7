"""How fast a broker is over loopback: durable publishes, publish to stream, fan-out, a start with many subscriptions.

The broker is a process of its own with its data on this disk; clients are raw sockets in this process, so that little
of the machine goes to them, and the CPU time of both sides is told. With two cores both share the machine: the rates
are those of broker and clients together.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.lab.measure.benchmark_results import Progress, Verdict, no_progress, report
from whimbrel.lab.measure.broker_process import BATCH, BrokerProcess, Connection, percentile
from whimbrel.lab.measure.broker_publications import measure_publications
from whimbrel.lab.measure.broker_streams import measure_streams
from whimbrel.lab.measure.broker_webhooks import measure_webhooks
from whimbrel.lab.measure.machine import card
from whimbrel.lab.workloads import event_dicts, make

_CONNECTIONS = 8
_BOXES = 10_000
"""Subscriptions on publications."""
_SINKS = 20
"""Subscriptions with a sink."""


@dataclass(frozen=True, slots=True)
class BrokerSizes:
    """The sizes of one run."""

    subscriptions: int
    events: int
    batch: int
    single_publishes: int
    streams: int
    fan_out: int
    many: int
    entries: int


SMALL = BrokerSizes(10_000, 20_000, 100, 500, streams=100, fan_out=150, many=20_000, entries=200_000)
FULL = BrokerSizes(100_000, 200_000, 100, 5_000, streams=1_000, fan_out=1_500, many=1_000_000, entries=10_000_000)


@dataclass(frozen=True, slots=True)
class RivalTask:
    """What a rival does: publish the events in batches, then send `fan_out` events to so many streams."""

    events: Sequence[bytes]
    batch: int
    streams: int
    fan_out: int
    directory: Path
    """Where its files may be."""


RIVALS: list[Callable[[RivalTask], dict[str, Any]]] = []
"""Each measures another server without matching. None is part of the library; `python -m benchmarks` adds some."""


def workload_texts(name: str, sizes: BrokerSizes) -> tuple[list[str], list[bytes]]:
    """The filters of a workload, over `data.`, and its events as CloudEvents without their ids."""
    made = make(name, n=sizes.subscriptions, events=min(20_000, sizes.events))
    names = "|".join(made.events.column_names)
    quoted = re.compile(rf"'(?:[^']|'')*'|\b(?:{names})\b")

    def renamed(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith("'") else f"data.{found[0]}"

    filters = [quoted.sub(renamed, text) for text in made.subscriptions.column("filter").to_pylist()]
    return filters, [msgspec.json.encode(event) for event in event_dicts(made.events)]


def batches(events: Sequence[bytes], count: int, size: int, prefix: str) -> list[bytes]:
    """Bodies of `size` events each, every event with an id of its own."""
    numbered = (
        b'{"specversion":"1.0","id":"%b-%d","source":"bench","type":"event","data":%b}' % (prefix.encode(), n, event)
        for n, event in enumerate(islice(cycle(events), count))
    )
    bodies = []
    while group := list(islice(numbered, size)):
        bodies.append(b"[" + b",".join(group) + b"]")
    return bodies


async def import_filters(broker: BrokerProcess, filters: Sequence[str]) -> float:
    """Create durable PULL subscriptions. Return the seconds that it took."""
    return await broker.import_lines([msgspec.json.encode({"filter": text}) for text in filters])


async def publish_all(broker: BrokerProcess, bodies: Sequence[bytes]) -> float:
    """Publish all bodies over some connections. Return the seconds that it took."""
    return await broker.post_all("/events", bodies, BATCH, _CONNECTIONS)


def measure_publish(name: str, sizes: BrokerSizes, directory: Path, progress: Progress) -> dict[str, Any]:
    """Durable publishes in batches, nobody reading."""
    filters, events = workload_texts(name, sizes)
    with BrokerProcess(directory) as broker:
        imported = asyncio.run(import_filters(broker, filters))
        progress(f"{name}: {len(filters):,} subscriptions imported in {imported:.1f} s")
        asyncio.run(publish_all(broker, batches(events, 5_000, sizes.batch, "warm")))
        broker.settle()
        bodies = batches(events, sizes.events, sizes.batch, "run")
        threads = broker.thread_seconds()
        broker_before, client_before = broker.cpu_seconds(), time.process_time()
        seconds = asyncio.run(publish_all(broker, bodies))
        broker_cpu, client_cpu = broker.cpu_seconds() - broker_before, time.process_time() - client_before
        used = {name: spent - threads.get(name, 0.0) for name, spent in broker.thread_seconds().items()}
    return {
        "workload": name,
        "subscriptions": len(filters),
        "events": sizes.events,
        "events_per_second": round(sizes.events / seconds),
        "broker_us_per_event": round(broker_cpu / sizes.events * 1e6, 1),
        "client_us_per_event": round(client_cpu / sizes.events * 1e6, 1),
        "thread_us_per_event": {name: round(spent / sizes.events * 1e6, 1) for name, spent in used.items()},
        "import_seconds": round(imported, 1),
    }


def measure_changes(name: str, sizes: BrokerSizes, directory: Path) -> dict[str, Any]:
    """Durable publishes while 100 subscriptions a second are created and deleted."""
    filters, events = workload_texts(name, sizes)

    async def work(broker: BrokerProcess) -> float:
        await import_filters(broker, filters)
        await publish_all(broker, batches(events, 5_000, sizes.batch, "warm"))
        broker.settle()
        changing = asyncio.create_task(_change_forever(broker, filters))
        seconds = await publish_all(broker, batches(events, sizes.events, sizes.batch, "changes"))
        changing.cancel()
        return seconds

    with BrokerProcess(directory) as broker:
        seconds = asyncio.run(work(broker))
    return {"workload": name, "events_per_second": round(sizes.events / seconds)}


async def _change_forever(broker: BrokerProcess, filters: Sequence[str]) -> None:
    """Create and delete subscriptions, 100 times a second, without waiting for the answers one by one."""
    free = await _free_connections(broker, 2 * _CONNECTIONS)
    made: list[str] = []
    tasks: set[asyncio.Task[None]] = set()

    async def change(text: str) -> None:
        connection = await free.get()
        if len(made) > 50:
            await connection.request("DELETE", f"/subscriptions/{made.pop(0)}")
        else:
            body = await connection.request("POST", "/subscriptions", msgspec.json.encode({"filter": text}))
            made.append(msgspec.json.decode(body)["id"])
        free.put_nowait(connection)

    began = time.perf_counter()
    for count, text in enumerate(cycle(filters), 1):
        task = asyncio.create_task(change(text))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await asyncio.sleep(max(0.0, began + count / 100 - time.perf_counter()))


async def _free_connections(broker: BrokerProcess, count: int) -> asyncio.Queue[Connection]:
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for _ in range(count):
        free.put_nowait(await Connection.open(broker.host, broker.port))
    return free


def measure_single_publishes(sizes: BrokerSizes, directory: Path) -> dict[str, Any]:
    """Publishes of one event at 500 a second; milliseconds until the answer."""

    async def work(broker: BrokerProcess) -> list[float]:
        filters, events = workload_texts("hm", sizes)
        await import_filters(broker, filters)
        free = await _free_connections(broker, _CONNECTIONS)
        times: list[float] = []

        async def one(body: bytes, due: float) -> None:
            connection = await free.get()
            await connection.request("POST", "/events", body, BATCH)
            free.put_nowait(connection)
            times.append((time.perf_counter() - due) * 1e3)

        for warm in batches(events, 200, 1, "warm"):
            await one(warm, time.perf_counter())
        times.clear()
        began = time.perf_counter()
        tasks = []
        for number, body in enumerate(batches(events, sizes.single_publishes, 1, "single")):
            due = began + number / 500
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            tasks.append(asyncio.create_task(one(body, due)))
        await asyncio.gather(*tasks)
        return times

    with BrokerProcess(directory) as broker:
        times = asyncio.run(work(broker))
    return {
        "per_second": 500,
        "p50_ms": round(statistics.median(times), 2),
        "p99_ms": round(percentile(times, 0.99), 2),
    }


def measure_start(sizes: BrokerSizes, directory: Path, progress: Progress) -> dict[str, Any]:
    """Import many subscriptions, stop, and start from the saved index; seconds."""
    filters, _ = workload_texts("hm", replace(sizes, subscriptions=sizes.many))
    with BrokerProcess(directory) as broker:
        imported = asyncio.run(import_filters(broker, filters))
        progress(f"{sizes.many:,} subscriptions imported in {imported:.1f} s")
    started = broker.start()
    broker.stop()
    return {"subscriptions": sizes.many, "import_seconds": round(imported, 1), "start_seconds": round(started, 2)}


def measure_pull(sizes: BrokerSizes, directory: Path, progress: Progress) -> dict[str, Any]:
    """Pull 10 matches that lie among many entries; milliseconds."""
    from whimbrel.log import EVENT, LogWriter
    from whimbrel.log.match_list import encode

    async def subscribe() -> str:
        connection = await Connection.open(broker.host, broker.port)
        body = await connection.request("POST", "/subscriptions", b'{"filter": "data.rare = 1"}')
        return str(msgspec.json.decode(body)["id"])

    with BrokerProcess(directory) as broker:
        id = asyncio.run(subscribe())
    event = b'{"specversion":"1.0","id":"p%d","source":"bench","type":"e","data":{"rare":%d}}'
    hit, miss = encode([0, 7, 8]), encode([7, 8, 9])  # the subscription is the first entry: its number is 0
    with LogWriter(directory / "log") as writer:
        every = sizes.entries // 10
        for start in range(1, sizes.entries, 20_000):
            rows = [
                (EVENT, event % (n, n % every == 0), hit if n % every == 0 else miss)
                for n in range(start, min(start + 20_000, sizes.entries + 1))
            ]
            writer.append_rows(rows).result()
    progress(f"{sizes.entries:,} entries written")
    caught_up = broker.start()

    async def pull() -> list[float]:
        connection = await Connection.open(broker.host, broker.port)
        times = []
        for _ in range(21):
            began = time.perf_counter()
            body = await connection.request("GET", f"/subscriptions/{id}/messages?limit=100")
            times.append((time.perf_counter() - began) * 1e3)
        assert len(msgspec.json.decode(body)["messages"]) == 10
        return times

    try:
        times = asyncio.run(pull())
    finally:
        broker.stop()
    return {
        "entries": sizes.entries,
        "rebuild_seconds": round(caught_up, 1),
        "p50_ms": round(statistics.median(times), 2),
        "highest_ms": round(max(times), 2),
    }


def run(sizes: BrokerSizes, progress: Progress = no_progress) -> dict[str, Any]:
    """Measure everything and return JSON-ready data with the machine card."""
    machine = card()
    scratch = Path(tempfile.mkdtemp(prefix="whimbrel-broker-"))
    try:
        result = {
            "publish": [measure_publish(name, sizes, scratch / name, progress) for name in ("hm", "mixed")],
            "changes": measure_changes("hm", sizes, scratch / "changes"),
            "single_publishes": measure_single_publishes(sizes, scratch / "single"),
            "end_to_end": measure_streams(scratch / "stream", 1, 1_000, 2 * sizes.single_publishes),
            "fan_out": measure_streams(scratch / "fan-out", sizes.streams, 150, sizes.fan_out),
            "webhooks": [
                measure_webhooks(scratch / "webhooks", _SINKS, max(1, sizes.single_publishes // 10), None),
                measure_webhooks(scratch / "webhook-batches", _SINKS, sizes.single_publishes, 100),
            ],
            "publications": measure_publications(
                scratch / "publications", _BOXES, min(20_000, sizes.events), sizes.events // 2, sizes.batch
            ),
            "rivals": _measure_rivals(sizes, scratch / "rivals"),
            "pull": measure_pull(sizes, scratch / "pull", progress),
            "start": measure_start(sizes, scratch / "start", progress),
        }
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return report(machine, _verdicts(result, sizes), sizes=asdict(sizes), **result)


def _measure_rivals(sizes: BrokerSizes, directory: Path) -> list[dict[str, Any]]:
    _, plain = workload_texts("hm", sizes)
    events = list(islice(cycle(plain), sizes.events))
    return [measure(RivalTask(events, sizes.batch, sizes.streams, sizes.fan_out, directory)) for measure in RIVALS]


def _verdicts(result: dict[str, Any], sizes: BrokerSizes) -> list[Verdict]:
    """The targets, each with what was measured."""
    rates = {row["workload"]: float(row["events_per_second"]) for row in result["publish"]}
    changing, delivered = result["changes"]["events_per_second"], result["fan_out"]["deliveries_per_second"]
    updated = result["publications"]["updates_per_second"]
    return [
        Verdict("durable events/s on hm, batches of 100 over 8 connections", 40_000, rates["hm"]),
        Verdict("durable events/s on mixed, batches of 100 over 8 connections", 18_000, rates["mixed"]),
        Verdict("share of that rate while 100 subscriptions a second change", 0.8, changing / rates["hm"]),
        Verdict("single publish at 500/s, p99 ms", 15, result["single_publishes"]["p99_ms"], least=False),
        Verdict("publish to stream at 1,000/s, p50 ms", 10, result["end_to_end"]["p50_ms"], least=False),
        Verdict("deliveries/s to many streams", 150.0 * sizes.streams * 0.95, delivered),
        Verdict("webhooks/s, one by one", 1_500, result["webhooks"][0]["deliveries_per_second"]),
        Verdict("messages/s to webhooks in batches of 100", 10_000, result["webhooks"][1]["deliveries_per_second"]),
        Verdict("durable updates/s of publications, 10,000 filters told of enters and leaves", 5_000, updated),
        Verdict("pull of 10 matches, ms", 50, result["pull"]["p50_ms"], least=False),
        Verdict("start from the saved index, s", 4, result["start"]["start_seconds"], least=False),
    ]
