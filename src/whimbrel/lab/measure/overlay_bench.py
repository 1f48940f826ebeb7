"""How much work an overlay saves: a simulation with prefixes and as SIENA, and the steps of a router by themselves.

Times are CPU time, medians of repeats in turns. Bias: the tree is compiled and the poset is plain Python, so between
those two work is compared (nodes visited + bounds and constraints compared, edge checks on both sides), not time. The
forward step is timed with its decoding, and beside a match on the compiled tree, which is the harder rival.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import mean, median
from time import process_time
from typing import Any

import numpy as np

from whimbrel.lab.measure.benchmark_results import Progress, Verdict, no_progress, report
from whimbrel.lab.measure.machine import card
from whimbrel.lab.measure.overlay_chain import run_chain
from whimbrel.lab.measure.timing import Times
from whimbrel.model.event import Event
from whimbrel.overlay.simulation.paper_workload import Distribution, PaperWorkload
from whimbrel.overlay.simulation.scenario import Scenario, ScenarioOptions
from whimbrel.overlay.simulation.simulate import Simulation
from whimbrel.overlay.tree.prefix import Prefix
from whimbrel.overlay.tree.routing_tree import RoutingTree
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot

_NEIGHBOURS = 3
"""Neighbours that the filters of the timed forward step belong to, in turns."""


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
    began = process_time()
    for interest in interests.values():
        tree.insert(interest.key, interest.paths)
    inserted = process_time()
    snapshot = TreeSnapshot(tree, (1, 1))
    frozen = process_time()
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
