from whimbrel.lab.measure.overlay_bench import OverlaySizes, run


def test_a_small_run_loses_nothing_and_saves_work() -> None:
    said: list[str] = []
    result = run(OverlaySizes(filters=150, events=20, timed=20, repeat=1), said.append)
    assert len(said) == 3
    assert result["prefix"]["deliveries"] == result["siena"]["deliveries"]
    assert result["verdicts"][0]["met"]
    assert result["steps"]["forward_work"] < result["steps"]["match_work"]
