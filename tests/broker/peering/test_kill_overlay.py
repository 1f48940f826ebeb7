"""Brokers under load, of which some are killed and come back: nothing is lost, wrong, or twice in a log."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.broker.load import Load
from tests.broker.peering.overlays import Overlay, OverlayBroker, until
from whimbrel.lab.delivery_checker import judge
from whimbrel.log import EVENT, LogReader

EDGES = [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2), (7, 3), (8, 5)]
FILTERS = {
    3: "data.n < 30",
    4: "data.tags CONTAINS 'a' AND data.n > 50",
    6: "data.n BETWEEN 20 AND 60 AND type = 'even'",
    7: "data.n >= 70",
    8: "data.n = 5 OR data.n = 95",
}
PUBLISHERS = (0, 4, 7, 8)
UNSEEN = 10**12
"""Offsets from here on stand for events that a broker was told nothing of."""


def history_at(loads: dict[int, Load], number: int) -> list[dict[str, Any]]:
    """What happened, as the broker with that number should have seen it: offsets are those of its own log."""
    own = list(loads[number].history)
    seen = {(line["source"], line["id"]): line["offset"] for line in own if line["op"] in ("delivered", "acked")}
    others = [line for load in loads.values() if load is not loads[number] for line in list(load.history)]
    attempts = [line for line in others if line["op"] == "attempt"]
    acked = [line for line in others if line["op"] == "acked"]
    told = [
        {**line, "offset": seen.get((line["source"], line["id"]), UNSEEN + place)} for place, line in enumerate(acked)
    ]
    return [*attempts, *own, *told]


def check_log(broker: OverlayBroker) -> int:
    """No event is twice in the log; how many there are."""
    with LogReader(Path(broker.settings["data"]) / "log") as log:
        events = [msgspec.json.decode(entry.event) for entry in log.read(log.floor) if entry.kind == EVENT]
    names = [(event["source"], event["id"]) for event in events]
    assert len(names) == len(set(names))
    return len(names)


def run(directory: Path, kills: list[int], seconds: float, seed: int, brokers: int = 9) -> None:
    chance = random.Random(seed)
    edges = [edge for edge in EDGES if max(edge) < brokers]
    filters = {number: text for number, text in FILTERS.items() if number < brokers}
    with Overlay(directory, brokers, edges) as overlay, ExitStack() as running:
        overlay.until_linked()
        loads = {number: Load(broker.url, seed + number, broker.root) for number, broker in enumerate(overlay.brokers)}
        ids = {number: loads[number].subscribe(text) for number, text in filters.items()}
        overlay.until_filters([len(filters)] * brokers)
        for load in loads.values():
            running.enter_context(load.running())
        for number in [number for number in PUBLISHERS if number < brokers]:
            loads[number].publisher(f"p{number}")
        for number, id in ids.items():
            loads[number].puller(id)
        for victim in kills:
            time.sleep(seconds / len(kills) * chance.uniform(0.5, 1.0))
            overlay.brokers[victim].kill()
            time.sleep(chance.uniform(0.0, 0.3))
            overlay.brokers[victim].start()
        until(lambda: sum(load.acked for load in loads.values()) > 100)
        running.close()
        overlay.until_linked()

        def all_good() -> bool:
            for number, id in ids.items():
                loads[number].drain([id])
            return all(judge(history_at(loads, number)).is_good for number in ids)

        with suppress(AssertionError):  # the verdict below says why
            until(all_good, 40.0)
        verdicts = {number: judge(history_at(loads, number)) for number in ids}
        for broker in overlay.brokers:
            assert broker.stop() == 0
    for number, verdict in verdicts.items():
        assert verdict.is_good, f"at b{number}: {verdict}"
    acked = max(verdict.acked for verdict in verdicts.values())
    assert acked > 100 and all(verdict.delivered > 0 for verdict in verdicts.values())
    assert sum(check_log(broker) for broker in overlay.brokers) > acked


def test_a_broker_on_the_way_and_the_optimizer_are_killed_under_load(tmp_path: Path) -> None:
    run(tmp_path, [1, 0], 2.0, 7, brokers=5)


@pytest.mark.soak
@pytest.mark.timeout(1_800)  # a start takes half a minute where the machine is busy
@pytest.mark.parametrize("seed", range(10))
def test_many_kills_lose_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    run(tmp_path, [chance.randrange(9) for _ in range(20)], 30.0, seed)
