"""Experiments run once per version of the code, go on after an interruption, and are refused where they do not fit."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet
import pytest

from whimbrel.lab.experiments import experiment, experiments
from whimbrel.lab.harness import running
from whimbrel.lab.harness.claims import order
from whimbrel.lab.harness.experiment import SCALES, Experiment, Point, Timed, grid
from whimbrel.lab.harness.measures import Measures, Row
from whimbrel.lab.harness.panels import Panel, PlottingMissing
from whimbrel.lab.harness.result_store import MeasuredPoint, NoResults, ResultStore, read_results
from whimbrel.lab.harness.running import ExperimentsFailed, ScaleTooLarge, run_experiments
from whimbrel.lab.measure.benchmark_results import UnknownName
from whimbrel.lab.measure.matching.rival import CannotTakePart
from whimbrel.lab.report.html_page import page
from whimbrel.lab.report.report_contents import winner
from whimbrel.lab.report.summary import write_summary

CALLS: list[Point] = []


def count(point: Point) -> Iterator[Row]:
    CALLS.append(point)
    if point["n"] == STOP_AT[0]:
        raise KeyboardInterrupt
    for name, factor in (("a", 1), ("b", 2)):
        yield Row(name, "steps", float(point["n"]) * factor, "per event")


def measure(point: Point) -> Iterator[Timed | Row]:
    yield Timed("a", lambda: sum(range(1_000)))
    yield Timed("b", lambda: sum(range(100_000)))


STOP_AT: list[object] = [None]
EXAMPLE = Experiment(
    name="beyond-example",
    figure="no figure",
    question="Is <a> less than b?",
    why="It is half of it.",
    scales={"tiny": grid(n=[10, 20, 30]), "small": grid(n=[10])},
    counted=count,
    timed=measure,
    panels=(
        Panel("steps", "n", "subscriptions", "steps"),
        Panel("time", "n", "subscriptions", "us", kind="bars", log_y=False),
        Panel("steps", "n", "subscriptions", "steps", kind="points", split="n"),
    ),
    claims=(order("a is less", "steps", "a", "b"), order("b is less", "steps", "b", "a")),
)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.clear()
    STOP_AT[0] = None
    monkeypatch.setattr("gc.collect", lambda: 0)  # twice a point it would look at all that the tests have loaded


def test_writes_table_plot_and_verdict(tmp_path: Path) -> None:
    (record,) = run_experiments([EXAMPLE], "tiny", tmp_path)
    assert record["verdict"] == "partly"
    assert [claim["holds"] for claim in record["claims"]] == [True, False]
    folder = tmp_path / "tiny" / "beyond-example"
    assert sorted(path.name for path in folder.iterdir()) == [
        "plot.png", "plot.svg", "points", "result.json", "table.csv", "table.parquet",
    ]  # fmt: skip
    table = pyarrow.parquet.read_table(folder / "table.parquet")
    assert table.num_rows == pyarrow.csv.read_csv(folder / "table.csv").num_rows == 12
    assert json.loads((folder / "result.json").read_text()) == record
    assert (folder / "plot.svg").read_text().count("b is less") == 1


def test_measures_every_point_once(tmp_path: Path) -> None:
    first = run_experiments([EXAMPLE], "tiny", tmp_path)
    second = run_experiments([EXAMPLE], "tiny", tmp_path)
    assert first[0]["machine"] == second[0]["machine"]  # that of the measurement
    assert [point["n"] for point in CALLS] == [30, 20, 10]  # the longest first
    assert [record["claims"] for record in first] == [record["claims"] for record in second]


def test_goes_on_after_an_interruption(tmp_path: Path) -> None:
    STOP_AT[0] = 20
    with pytest.raises(KeyboardInterrupt):
        run_experiments([EXAMPLE], "tiny", tmp_path)
    with pytest.raises(NoResults):
        read_results(tmp_path)
    STOP_AT[0] = None
    run_experiments([EXAMPLE], "tiny", tmp_path)
    assert [point["n"] for point in CALLS] == [30, 20, 20, 10]


def test_an_experiment_that_cannot_run_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    def refuse(point: Point) -> Iterator[Timed | Row]:
        raise CannotTakePart("too slow")
        yield

    broken = replace(EXAMPLE, name="beyond-broken", counted=None, timed=refuse)
    with pytest.raises(ExperimentsFailed, match="1 did not: beyond-broken: too slow"):
        run_experiments([broken, EXAMPLE], "tiny", tmp_path)
    assert [record["name"] for record in read_results(tmp_path)] == ["beyond-example"]


def test_never_mixes_results_of_two_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    STOP_AT[0] = 10
    with pytest.raises(KeyboardInterrupt):
        run_experiments([EXAMPLE], "tiny", tmp_path)
    STOP_AT[0] = None
    monkeypatch.setattr(running, "code_version", lambda *functions: "another")
    (record,) = run_experiments([EXAMPLE], "tiny", tmp_path)
    assert [point["n"] for point in CALLS] == [30, 20, 10, 30, 20, 10]
    assert record["version"] == "another"
    assert [path.name for path in (tmp_path / "tiny/beyond-example/points").iterdir()] == ["another"]


def test_a_point_that_is_half_written_is_measured_again(tmp_path: Path) -> None:
    run_experiments([EXAMPLE], "tiny", tmp_path)
    for path in (tmp_path / "tiny/beyond-example/points").glob("*/counted-*"):
        path.write_text(path.read_text()[:20])
    run_experiments([EXAMPLE], "tiny", tmp_path)
    assert len(CALLS) == 6


def test_points_of_other_parameters_are_other_points(tmp_path: Path) -> None:
    store = ResultStore(tmp_path, "v")
    measured = MeasuredPoint([{"value": 1}], {"date": "today"})
    store.keep("counted", {"n": 1}, measured)
    assert store.finished("counted", {"n": 1}) == measured
    assert store.finished("counted", {"n": 2}) is None
    assert store.finished("timed", {"n": 1}) is None
    assert ResultStore(tmp_path, "w").finished("counted", {"n": 1}) is None


def test_refuses_a_scale_that_does_not_fit(tmp_path: Path) -> None:
    huge = replace(EXAMPLE, memory=lambda point: 1e15)
    with pytest.raises(ScaleTooLarge, match=r"estimated to take 1000000.0 GB") as caught:
        run_experiments([EXAMPLE, huge], "tiny", tmp_path)
    assert caught.value.needed == 1e15
    assert not CALLS


def test_without_a_library_for_plots_nothing_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PlottingMissing, match="pip install"):
        run_experiments([EXAMPLE], "tiny", tmp_path)
    assert not CALLS


def test_refuses_a_scale_without_points(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="Expected for beyond-example a scale of tiny, small, but got 'full'"):
        run_experiments([EXAMPLE], "full", tmp_path)


def test_tells_how_much_is_done_and_left(tmp_path: Path) -> None:
    told: list[tuple[float, str, str]] = []
    run_experiments([EXAMPLE], "tiny", tmp_path, notice=lambda *one: told.append(one))
    shares = [share for share, _, _ in told]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert all(left.endswith("left") for _, _, left in told[1:])


def test_reports_show_everything_and_need_no_network(tmp_path: Path) -> None:
    run_experiments([EXAMPLE], "tiny", tmp_path / "out")
    records = read_results(tmp_path / "out")
    html = page(records)
    assert "Is &lt;a&gt; less than b?" in html
    assert "data:image/svg+xml;base64," in html
    assert "http://" not in html and "https://" not in html
    files = write_summary(records, tmp_path / "results.md")
    text = files[0].read_text()
    assert "| b is less | **fails** |" in text
    assert "1 experiments, 1 at scale tiny: " in text and "load average" in text
    assert "| Beyond, no figure | partly |  |" in text
    assert "Is <a> less than b?" in text


def test_only_rivals_of_the_engine_can_be_the_fastest() -> None:
    def measures(*series: str) -> Measures:
        return Measures(
            Row(name, "time", value).to_dict({"n": n}) for n in (1, 2) for value, name in enumerate(series, 1)
        )

    assert winner(measures("engine", "hanson", "bound")) == "engine everywhere, 2 x faster than the next"
    assert winner(measures("engine, analyzed", "engine")) == "engine, analyzed everywhere, 2 x faster than the next"
    assert winner(measures("add", "delete")) == winner(measures("engine")) == ""


def test_reads_the_largest_scale_of_each_experiment(tmp_path: Path) -> None:
    for scale in SCALES[:2]:
        run_experiments([EXAMPLE], scale, tmp_path)
    assert [record["scale"] for record in read_results(tmp_path)] == ["small"]
    assert [record["scale"] for record in read_results(tmp_path, "tiny")] == ["tiny"]


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="did you mean 'gryphon-time'"):
        experiment("gryphon-tme")


@pytest.mark.parametrize("one", experiments().values(), ids=lambda one: one.name)
def test_every_experiment_says_what_it_asks_and_has_all_scales(one: Experiment) -> None:
    assert one.question.endswith("?")
    assert one.why and one.figure and one.panels
    assert one.counted or one.timed
    assert set(one.scales) == set(SCALES)
    for points in one.scales.values():
        assert len({json.dumps(point) for point in points}) == len(points) > 0
