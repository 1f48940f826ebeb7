"""How much work an overlay saves: a simulation with prefixes and as SIENA, the steps of a router, a chain of brokers.

Times are CPU time, medians of repeats in turns. Bias: the tree is compiled and the poset is plain Python, so between
those two work is compared (nodes visited + bounds and constraints compared, edge checks on both sides), not time. The
forward step is timed with its decoding, and beside a match on the compiled tree, which is the harder rival.

Through a chain of three brokers events go by prefix, and with a match on the compiled tree at every hop, in turns. They
are published at the first broker; subscriptions are at the last, which gets all of them: one filter wants every event,
the others are those of the paper. All brokers and the publisher share the machine, so events per second are those of
three brokers together; the CPU time of the middle broker's router is what the mode changes.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any, Self

import msgspec
import numpy as np

from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.service.broker import Broker
from whimbrel.client import Client, wire
from whimbrel.lab.measure.benchmark_results import Progress, Verdict, no_progress, report
from whimbrel.lab.measure.broker_process import BrokerProcess
from whimbrel.lab.measure.machine import card
from whimbrel.lab.measure.timing import Times
from whimbrel.lab.shop_broker import under_data
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.overlay.simulation.paper_workload import Distribution, PaperWorkload
from whimbrel.overlay.simulation.scenario import Scenario, ScenarioOptions
from whimbrel.overlay.simulation.simulate import Simulation
from whimbrel.overlay.tree.prefix import Prefix
from whimbrel.overlay.tree.routing_tree import RoutingTree
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot

_NEIGHBOURS = 3
"""Neighbours that the filters of the timed forward step belong to, in turns."""
_BATCH = 500
_WAIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class OverlaySizes:
    """Filters and events of the simulation, events of the timed steps, repeats; filters and events of the chain."""

    filters: int
    events: int
    timed: int
    repeat: int
    chain_filters: int
    chain_events: int


SMALL = OverlaySizes(filters=2_000, events=200, timed=300, repeat=5, chain_filters=200, chain_events=2_000)
FULL = OverlaySizes(filters=20_000, events=300, timed=1_000, repeat=5, chain_filters=1_000, chain_events=10_000)


def run(sizes: OverlaySizes, progress: Progress = no_progress) -> dict[str, Any]:
    """Measure everything and return JSON-ready data with the machine card."""
    chain = run_chain(sizes.chain_filters, sizes.chain_events, min(sizes.repeat, 3), progress)
    return {**simulate(sizes, progress), "chain": chain}


def simulate(sizes: OverlaySizes, progress: Progress) -> dict[str, Any]:
    """Measure all but the chain of brokers."""
    machine = card()
    scenario = Scenario(ScenarioOptions(filters=sizes.filters, events=sizes.events))
    progress(f"inserting {sizes.filters:,} filters")
    steps = _steps(scenario, sizes)
    simulation = Simulation(scenario)
    reports = {}
    for kind in ("prefix", "siena"):
        progress(f"simulating {kind}")
        reports[kind] = simulation.run(kind).report
    prefix, siena = reports["prefix"], reports["siena"]
    verdicts = [
        Verdict("lost, wrong or double deliveries", 0, _faults(prefix) + _faults(siena), least=False),
        Verdict("work of SIENA / work with prefixes", 5, round(siena["work_per_event"] / prefix["work_per_event"], 1)),
        Verdict("work of a match / of a forward step", 20, round(steps["match_work"] / steps["forward_work"], 1)),
        Verdict("CPU of a match / of a forward step", 20, round(steps["match_us"] / steps["forward_us"], 1)),
        Verdict("nodes of a prefix, mean", 150, steps["prefix_nodes"], least=False),
        Verdict("bytes of a prefix, median", 1_024, steps["prefix_bytes"], least=False),
        Verdict("ms of an insertion", 5, steps["insert_ms"], least=False),
    ]
    return report(machine, verdicts, sizes=asdict(sizes), steps=steps, **reports)


def _faults(found: dict[str, int | float]) -> float:
    return found["false_negatives"] + found["wrong_deliveries"] + found["duplicates"]


def _steps(scenario: Scenario, sizes: OverlaySizes) -> dict[str, float]:
    """What inserting, matching and forwarding take, each by itself."""
    tree = RoutingTree()
    interests = {one.interest.key: one.interest for one in scenario.filters}
    began = time.process_time()
    for interest in interests.values():
        tree.insert(interest.key, interest.paths)
    inserted = time.process_time()
    snapshot = TreeSnapshot(tree, (1, 1))
    frozen = time.process_time()
    workload = PaperWorkload(Distribution.PARETO, scenario.options.seed + 1)
    events = [Event(workload.event()) for _ in range(sizes.timed)]
    masks = np.array([2 << number % _NEIGHBOURS for number in range(len(snapshot.keys))], np.int64)
    wanted = sum(2 << number for number in range(_NEIGHBOURS))
    matched = [snapshot.match(event) for event in events]
    coded = [one.prefix.encode() for one in matched]
    read = [snapshot.forward(Prefix.decode(data), masks, wanted)[1] for data in coded]
    match, forward = Times(), Times()
    for _ in range(sizes.repeat):
        match.of(lambda: [snapshot.match(event).prefix.encode() for event in events])
        forward.of(lambda: [snapshot.forward_coded(data, masks, wanted) for data in coded])
    return {
        "tree_nodes": len(tree),
        "nodes_per_filter": round(len(tree) / len(interests), 1),
        "insert_ms": round((inserted - began) * 1e3 / len(interests), 3),
        "freeze_seconds": round(frozen - inserted, 2),
        "match_us": round(match.median_cpu * 1e6 / len(events), 2),
        "forward_us": round(forward.median_cpu * 1e6 / len(events), 2),
        "match_work": round(mean(one.visited + one.compared for one in matched), 1),
        "forward_work": round(mean(read), 1),
        "prefix_nodes": round(mean(len(one.prefix) for one in matched), 1),
        "prefix_nodes_largest": max(len(one.prefix) for one in matched),
        "prefix_bytes": median(map(len, coded)),
        "prefix_bytes_largest": max(map(len, coded)),
    }


async def _make_tokens(directory: Path) -> tuple[str, str]:
    async with Broker(Settings(data=str(directory))) as broker:
        return await broker.tokens.create("root", ["admin"]), await broker.tokens.create("peers", ["peer"])


class ChainBroker(BrokerProcess):
    """A broker process of a chain, with a client. The one in the middle, to which the others connect, optimizes."""

    client: Client

    def __init__(self, directory: Path, name: str, every_hop: bool, middle: ChainBroker | None = None) -> None:
        self._token, self.peer_token = asyncio.run(_make_tokens(directory))
        settings = {"WHIMBREL_NAME": name, "WHIMBREL_MATCH_EVERY_HOP": str(every_hop).lower()}
        if middle is None:
            settings |= {"WHIMBREL_OPTIMIZER": "true", "WHIMBREL_OPTIMIZER_SECONDS": "0.5"}
        else:
            settings |= {"WHIMBREL_PEERS": middle.url, "WHIMBREL_PEER_TOKENS": middle.peer_token}
        super().__init__(directory, settings)

    def __enter__(self) -> Self:
        super().__enter__()
        self.client = Client(self.url, self._token, timeout=_WAIT_SECONDS)
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()
        super().__exit__(*error)

    def overlay(self) -> Any:
        """What it tells of its links."""
        return msgspec.json.decode(self.client.call(wire.get("/overlay")))

    def metrics(self) -> str:
        return self.client.call(wire.get("/metrics")).decode()

    def router_seconds(self) -> float:
        """The CPU time of its router."""
        return self.thread_seconds().get("router", 0.0)


def run_chain(filters: int, events: int, repeat: int, progress: Progress) -> dict[str, Any]:
    """Events per second, and the CPU time of the middle router for each, in both modes."""
    with ExitStack() as stack:
        chains = {
            mode: _Chain(stack, mode == "content match at every hop", filters)
            for mode in ("prefix", "content match at every hop")
        }
        rates: dict[str, list[float]] = {mode: [] for mode in chains}
        cpu: dict[str, list[float]] = {mode: [] for mode in chains}
        for number in range(repeat + 1):
            for mode, chain in chains.items():
                progress(f"chain of 3, {mode}, run {number}")
                rate, seconds = chain.run(events, f"{number}")
                if number:  # the first is for warming up
                    rates[mode].append(rate)
                    cpu[mode].append(seconds * 1e6 / events)
        return {
            mode: {
                "events_per_second": round(median(rates[mode])),
                "middle_router_cpu_us_per_event": round(median(cpu[mode]), 1),
                "content_matches": chain.matches(),
            }
            for mode, chain in chains.items()
        }


class _Chain:
    """Three linked brokers with filters at the last."""

    def __init__(self, stack: ExitStack, every_hop: bool, filters: int) -> None:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.middle = stack.enter_context(ChainBroker(root / "b1", "b1", every_hop))
        self.first = stack.enter_context(ChainBroker(root / "b0", "b0", every_hop, self.middle))
        self.last = stack.enter_context(ChainBroker(root / "b2", "b2", every_hop, self.middle))
        workload = PaperWorkload(Distribution.PARETO, 1)
        filters_of_paper = (Filter(under_data(workload.filter().expression)) for _ in range(filters))
        texts = ["data.run IS NOT NULL", *map(str, filters_of_paper)]
        self.last.client.import_many([{"filter": text} for text in texts])
        known = len(set(texts))
        _until(lambda: self.middle.overlay()["routing"]["filters"] >= 0.9 * known)
        _until(lambda: self.first.overlay()["routing"]["tree_filters"] > 0)
        _until(lambda: _is_still(self.first))
        self._workload = workload
        self._arrived = 0

    def run(self, events: int, name: str) -> tuple[float, float]:
        """Publish events; events per second until the last one is in the log of the last broker, and CPU seconds."""
        made = [
            {
                "specversion": "1.0", "id": f"{name}-{number}", "source": "bench", "type": "event",
                "data": {"run": number, **self._workload.event()},
            }
            for number in range(events)
        ]  # fmt: skip
        self._arrived += events
        before, began = self.middle.router_seconds(), time.perf_counter()
        for start in range(0, events, _BATCH):
            self.first.client.publish(made[start : start + _BATCH])
        _until(lambda: self.last.overlay()["links"][0]["events_in"] >= self._arrived)
        taken = time.perf_counter() - began
        return events / taken, self.middle.router_seconds() - before

    def matches(self) -> list[int]:
        """Matches on the routing tree at each broker."""
        return [one.overlay()["routing"]["content_matches"] for one in (self.first, self.middle, self.last)]


def _is_still(broker: ChainBroker) -> bool:
    """Whether the tree does not change any more."""
    before = broker.overlay()["routing"]["version"]
    time.sleep(2.0)
    return bool(broker.overlay()["routing"]["version"] == before)


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("Expected the chain of brokers to settle")
        time.sleep(0.02)
