"""The benchmark of the overlay at a tiny size: a simulation, and chains of real brokers."""

import pytest

from whimbrel.lab.measure.benchmark_results import no_progress
from whimbrel.lab.measure.overlay_bench import OverlaySizes, run, simulate

TINY = OverlaySizes(filters=150, events=20, timed=20, repeat=1, chain_filters=5, chain_events=50)


def test_a_small_simulation_loses_nothing_and_saves_work() -> None:
    said: list[str] = []
    result = simulate(TINY, said.append)
    assert said[0] == "inserting 150 filters"
    assert result["prefix"]["deliveries"] == result["siena"]["deliveries"]
    assert result["verdicts"][0]["met"]
    assert result["steps"]["forward_work"] < result["steps"]["match_work"]


@pytest.mark.soak
def test_chains_of_brokers_run_in_both_modes() -> None:
    result = run(TINY, no_progress)
    assert set(result["chain"]) == {"prefix", "content match at every hop"}
    assert all(figures["events_per_second"] > 0 for figures in result["chain"].values())
