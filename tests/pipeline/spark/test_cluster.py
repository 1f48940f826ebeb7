"""All stages on clusters of separate processes: a standalone one, whose processes are killed, and Spark Connect."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.kernels import compile_kernels
from tests.pipeline.spark.clusters import bare_python, connect_server, run, standalone
from tests.pipeline.spark.killed_driver import EXECUTOR, WORKER, KilledDriver
from whimbrel import Filter

pytestmark = pytest.mark.spark

SUBSCRIPTIONS = [(n, f"price < {n} AND category IN ('c{n % 3}', 'c{n % 5}')") for n in range(60)]
EVENTS = [{"event_id": n, "price": n * 7 % 61, "category": f"c{n % 7}"} for n in range(400)]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compile_kernels()  # they are sent with the library
    folder = tmp_path_factory.mktemp("inputs")
    ids, filters = zip(*SUBSCRIPTIONS, strict=True)
    (folder / "subscriptions").mkdir()
    pq.write_table(pa.table({"id": ids, "filter": filters}), folder / "subscriptions" / "0.parquet")
    (folder / "events").mkdir()
    for part in range(4):
        pq.write_table(pa.Table.from_pylist(EVENTS[part::4]), folder / "events" / f"{part}.parquet")
    return folder


@pytest.fixture
def folder(inputs: Path, tmp_path: Path) -> Path:
    for name in ("subscriptions", "events"):
        (tmp_path / name).symlink_to(inputs / name)
    return tmp_path


def expected() -> list[tuple[int, int]]:
    filters = [(id, Filter.parse(text)) for id, text in SUBSCRIPTIONS]
    return sorted((event["event_id"], id) for event in EVENTS for id, filter in filters if filter.matches(event))


def pairs_of(path: Path) -> list[tuple[int, int]]:
    return sorted((row["event_id"], row["subscription"]) for row in pq.read_table(path).to_pylist())


def check_homes(rows: list[dict[str, str]]) -> None:
    """The library of a worker is that in the directory of its executor."""
    assert all(row["home"] == f"{row['root']}/whimbrel/__init__.py" for row in rows), rows


@pytest.mark.timeout(600)  # nine Java processes and their Python workers start one after the other
def test_a_cluster_whose_executors_have_only_what_is_sent_to_them_loses_nothing_to_kills(folder: Path) -> None:
    """kill -9 of a Python worker, an executor and the driver within micro-batches: everything exactly once."""
    with standalone(folder) as url, KilledDriver(folder, url, bare_python(folder), 6) as driver:
        driver.wait_for(1)
        match, transitions = driver.restart()
        driver.wait_for(2)
        driver.kill(WORKER)
        driver.wait_for(3)
        driver.kill(EXECUTOR)
        driver.finish()
    assert pairs_of(folder / "replicate") == pairs_of(folder / "shard") == expected()
    homes = json.loads((folder / "homes.json").read_text())
    check_homes(homes)
    assert len({row["root"] for row in homes}) == 2, "both executors took part"
    for stream, batch in ((driver.match, match), (driver.transitions, transitions)):
        assert stream.version_of(batch) == 1, "what was cut off keeps its version"
        assert stream.version_of(5) > 1


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(6))
def test_kills_of_all_kinds_at_any_time(folder: Path, seed: int) -> None:
    with standalone(folder) as url, KilledDriver(folder, url, bare_python(folder), 24) as driver:
        driver.kill_at_any_time(seed, 24)


CONNECTED = """
    import json, sys
    from whimbrel.cli.main import main
    from whimbrel.pipeline import compile_index, match, match_stream, session, ship

    def homes(batches):
        import os, pyarrow as pa, whimbrel
        from pyspark import SparkFiles
        for batch in batches:
            home, root = os.path.abspath(whimbrel.__file__), os.path.abspath(SparkFiles.getRootDirectory())
            yield pa.RecordBatch.from_pydict({"home": [home], "root": [root]})

    spark = session("URL")
    ship(spark)
    compiled = compile_index(spark.read.parquet("FOLDER/subscriptions"), "FOLDER/index", shards=3)
    events = spark.read.parquet("FOLDER/events")
    match(events, "FOLDER/index", plan="shard").write.parquet("FOLDER/shard")
    rows = spark.range(1).mapInArrow(homes, "home string, root string").collect()
    print(json.dumps([row.asDict() for row in rows]))
    stream = spark.readStream.schema(events.schema).parquet("FOLDER/events")
    query = match_stream(stream, "FOLDER/index").writeStream.format("parquet").trigger(availableNow=True)
    query.option("checkpointLocation", "FOLDER/checkpoint").start("FOLDER/stream").awaitTermination()
    sys.argv = "whimbrel pipeline run -e events -s index -o cli --json".split()
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 0, ended
    spark.stop()
"""


def test_spark_connect_at_rest_streaming_and_from_the_command_line(folder: Path) -> None:
    with connect_server(folder, PYSPARK_PYTHON=sys.executable) as url:
        program = CONNECTED.replace("URL", url).replace("FOLDER", str(folder))
        rows, summary = map(json.loads, run(folder, program).splitlines())
    for name in ("shard", "stream", "cli"):
        assert pairs_of(folder / name) == expected(), name
    check_homes(rows)
    assert (summary["events"], summary["pairs"]) == (len(EVENTS), len(expected()))
