"""Events through a chain of three brokers, by prefix and with a match at every hop, in one run.

Events are published at the first broker; subscriptions are at the last, which gets all of them: one filter wants every
event, the others are those of the paper. Both modes run in turns on the same machine, which all brokers and the
publisher share, so events per second are those of three brokers together; the CPU time of the middle broker's router
is what the mode changes.

Bias: the match at every hop is that of the compiled routing tree, the harder rival, not SIENA's poset.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Self

import msgspec

from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.service.broker import Broker
from whimbrel.client import Client, wire
from whimbrel.lab.measure.benchmark_results import Progress
from whimbrel.lab.measure.broker_process import BrokerProcess
from whimbrel.lab.shop_broker import under_data
from whimbrel.model.filter import Filter
from whimbrel.overlay.simulation.paper_workload import Distribution, PaperWorkload

_BATCH = 500
_WAIT_SECONDS = 600.0


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

    def router_seconds(self) -> float:
        """The CPU time of its router."""
        told = self.client.call(wire.get("/metrics")).decode()
        found = re.search(r'whimbrel_thread_cpu_seconds_total{thread="router"} (\S+)', told)
        return float(found[1]) if found else 0.0


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
        self.last.client.call(wire.import_many([{"filter": text} for text in texts]))
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


def _until(holds: Any) -> None:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("Expected the chain of brokers to settle")
        time.sleep(0.02)
