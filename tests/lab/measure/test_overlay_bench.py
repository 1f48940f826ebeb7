from whimbrel.lab.measure.overlay_bench import OverlaySizes, run


def test_a_small_run_loses_nothing_and_saves_work() -> None:
    said: list[str] = []
    result = run(
        OverlaySizes(filters=150, events=20, timed=20, repeat=1, chain_filters=5, chain_events=50), said.append
    )
    assert said[0] == "inserting 150 filters"
    assert set(result["chain"]) == {"prefix", "content match at every hop"}
    assert result["prefix"]["deliveries"] == result["siena"]["deliveries"]
    assert result["verdicts"][0]["met"]
    assert result["steps"]["forward_work"] < result["steps"]["match_work"]
