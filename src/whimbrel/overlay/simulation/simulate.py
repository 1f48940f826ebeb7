"""Runs a scenario with each kind of router, counts, and draws what happened."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import IO, TypeAlias

from whimbrel.overlay.covering.cover_table import CoverTable
from whimbrel.overlay.picture import Drawing, draw_overlay
from whimbrel.overlay.router.baselines import FloodRouter, SienaRouter
from whimbrel.overlay.router.prefix_router import PrefixRouter
from whimbrel.overlay.router.router import Router, evaluate_interest
from whimbrel.overlay.router.router_messages import Forwarded
from whimbrel.overlay.simulation.network import Network
from whimbrel.overlay.simulation.run_history import Truth
from whimbrel.overlay.simulation.scenario import Scenario
from whimbrel.overlay.tree.paths import Interest
from whimbrel.overlay.tree.tree_store import TreeStore

KINDS = ("prefix", "siena", "flood")

Report: TypeAlias = dict[str, int | float]


@dataclass(slots=True)
class SimulationRun:
    """A run of one kind of router: the network after it, and its figures."""

    network: Network
    report: Report


class EvaluationCache:
    """Evaluations of filters on the event at hand, which all routers of a simulation share."""

    def __init__(self) -> None:
        self._message: object = None
        self._found: dict[bytes, tuple[bool, int]] = {}

    def evaluate(self, interest: Interest, message: Forwarded) -> tuple[bool, int]:
        """Call `evaluate_interest`, or take its result from the cache if another router has asked before."""
        if message.event is not self._message:
            self._message = message.event
            self._found.clear()
        found = self._found.get(interest.key)
        if found is None:
            found = self._found[interest.key] = evaluate_interest(interest, message)
        return found


class Simulation:
    """A scenario, and what its runs share: comparisons of filters, and which filters match which event."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._table, self._truth = CoverTable(), Truth()
        for one in scenario.filters:
            self._table.add(one.interest)
            self._truth.add(one.interest)

    def run(self, kind: str) -> SimulationRun:
        """Run the scenario with routers of one kind."""
        scenario, cache = self._scenario, EvaluationCache()
        trees = TreeStore(scenario.options.prefix.decay)
        routers = {name: self._router(kind, name, trees) for name in scenario.topology.neighbours}
        for router in routers.values():
            router.evaluator = cache.evaluate
        network = Network(scenario.topology, routers, scenario.options.seed, scenario.faults)
        if kind == "prefix":
            network.optimize(scenario.optimizer)
        scenario.schedule(network)
        began = time.process_time()
        network.run()
        return SimulationRun(network, self._report(network, time.process_time() - began))

    def write_history(self, run: SimulationRun, kind: str, file: IO[str]) -> None:
        """Write every subscription and every event with its deliveries as JSON lines."""
        history = run.network.history
        for one in history.subscriptions.values():
            file.write(
                json.dumps(
                    {
                        "kind": kind, "subscription": one.id, "filter": one.interest.text, "where": one.router,
                        "asked": one.asked, "from": one.propagated, "until": one.ended,
                    }
                ) + "\n"
            )  # fmt: skip
        for number, event in enumerate(history.events):
            deliveries = sorted(event.deliveries.elements())
            file.write(
                json.dumps(
                    {
                        "kind": kind, "event": number, "where": event.router, "published": event.published,
                        "handled": event.handled, "content": event.content, "deliveries": deliveries,
                    }
                ) + "\n"
            )  # fmt: skip

    def draw(self, run: SimulationRun) -> str:
        """The routers and links as SVG. A link says how many events went over it, both ways together.

        The first router is on top. Routers with false positives are red.
        """
        topology, passed, history = self._scenario.topology, run.network.link_events, run.network.history
        published = Counter(event.router for event in history.events)
        delivered: Counter[str] = Counter()
        for event in history.events:
            for subscription, count in event.deliveries.items():
                delivered[history.subscriptions[subscription].router] += count
        drawing = Drawing(topology)
        for one, two in topology.links():
            drawing.counts[one, two] = passed.get((one, two), 0) + passed.get((two, one), 0)
        for name in topology.neighbours:
            false = run.network.routers[name].counters.false_positives
            counts = {"in": published[name], "out": delivered[name], "false": false}
            drawing.marks[name] = [f"{count:,} {what}" for what, count in counts.items() if count]
            if false:
                drawing.alarms.add(name)
        return draw_overlay(drawing)

    def _router(self, kind: str, name: str, trees: TreeStore) -> Router:
        if kind == "prefix":
            return PrefixRouter(name, self._scenario.options.prefix, self._table, trees)
        return SienaRouter(name, self._table) if kind == "siena" else FloodRouter(name, self._table)

    def _report(self, network: Network, seconds: float) -> Report:
        history, counters = network.history, [router.counters for router in network.routers.values()]
        events = len(history.events)

        def total(name: str) -> int:
            return sum(int(getattr(one, name)) for one in counters)

        def each(name: str) -> float:
            return round(total(name) / events, 3) if events else 0.0

        sizes = [size for one in counters for size in one.prefix_bytes]
        nodes = [size for one in counters for size in one.prefix_nodes]
        return {
            "events": events,
            "deliveries": sum(event.deliveries.total() for event in history.events),
            "false_negatives": sum(1 for _ in history.missing(self._truth)),
            "wrong_deliveries": sum(1 for _ in history.wrong(self._truth)),
            "duplicates": history.duplicates(),
            "false_positives": total("false_positives"),
            "content_matches_per_event": each("content_matches"),
            "fallbacks": total("fallbacks"),
            "edge_checks": total("edge_checks"),
            "hops_per_event": each("arrived"),
            "work_per_event": each("work"),
            "forward_work_per_event": each("forward_visited"),
            "prefix_bytes": median(sizes) if sizes else 0,
            "prefix_bytes_largest": max(sizes, default=0),
            "prefix_nodes": median(nodes) if nodes else 0,
            "prefix_nodes_largest": max(nodes, default=0),
            "filter_messages": total("filter_messages"),
            "suppressed_filters": total("suppressed_filters"),
            "tree_updates": total("tree_updates"),
            "tree_update_bytes": total("tree_update_bytes"),
            "tree_nodes": _tree_nodes(network),
            "cpu_seconds": round(seconds, 3),
        }


def _tree_nodes(network: Network) -> int:
    sizes = [
        len(view.snapshot) - 1
        for router in network.routers.values()
        if isinstance(router, PrefixRouter) and (view := router.view(router.version)) is not None
    ]
    return max(sizes, default=0)
