"""Matching on clusters of separate processes, with executors that have the library only because it is sent to them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.kernels import compile_kernels
from tests.pipeline.spark.clusters import JAVA, bare_python, connect_server, run, standalone
from whimbrel import Filter

pytestmark = pytest.mark.spark

SUBSCRIPTIONS = [(n, f"price < {n} AND category IN ('c{n % 3}', 'c{n % 5}')") for n in range(60)]
EVENTS = [{"event_id": n, "price": n * 7 % 61, "category": f"c{n % 7}"} for n in range(400)]

MATCH = """
    import json
    from whimbrel.pipeline import compile_index, match, session, ship
    spark = session({url!r}, settings={settings!r})
    ship(spark)
    compiled = compile_index(spark.read.parquet("{folder}/subscriptions"), "{folder}/index", shards=3)
    assert (compiled.version, compiled.count, compiled.rejected) == (1, 60, 0), compiled
    events = spark.read.parquet("{folder}/events")
    for plan in ("replicate", "shard"):
        match(events, "{folder}/index", plan=plan).write.parquet("{folder}/" + plan)
    {after}
    spark.stop()
"""


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


WHERE = """
    def where(batches):
        import os, pyarrow as pa, whimbrel
        from pyspark import SparkFiles
        for batch in batches:
            home, root = os.path.abspath(whimbrel.__file__), os.path.abspath(SparkFiles.getRootDirectory())
            yield pa.RecordBatch.from_pydict({"home": [home], "root": [root]})

    rows = spark.range(0, 8, numPartitions=8).mapInArrow(where, "home string, root string").distinct().collect()
    print(json.dumps([row.asDict() for row in rows]))
"""


def test_a_standalone_cluster_whose_executors_have_only_what_is_sent_to_them(folder: Path) -> None:
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": JAVA,
        "spark.executor.extraJavaOptions": JAVA,
        "spark.executor.cores": "1",  # two executors, each in a process and a directory of its own
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
    }
    with standalone(folder) as url:
        program = MATCH.format(url=url, settings=settings, folder=folder, after=WHERE.strip())
        rows = json.loads(run(folder, program, PYSPARK_PYTHON=str(bare_python(folder))))
    assert pairs_of(folder / "replicate") == pairs_of(folder / "shard") == expected()
    assert len({row["root"] for row in rows}) == 2, "both executors took part"
    assert all(row["home"] == f"{row['root']}/whimbrel/__init__.py" for row in rows), rows


def test_spark_connect_at_rest_streaming_and_from_the_command_line(folder: Path) -> None:
    more = """
    from whimbrel.pipeline import match_stream
    stream = spark.readStream.schema(events.schema).parquet("FOLDER/events")
    query = match_stream(stream, "FOLDER/index").writeStream.format("parquet").trigger(availableNow=True)
    query.option("checkpointLocation", "FOLDER/checkpoint").start("FOLDER/stream").awaitTermination()
    import sys
    from whimbrel.cli.main import main
    sys.argv = "whimbrel pipeline run -e events -s index -o cli --json".split()
    try:
        main()
    except SystemExit as ended:
        assert ended.code == 0, ended
    """
    after = WHERE.strip() + "\n" + more.replace("FOLDER", str(folder))
    with connect_server(folder, PYSPARK_PYTHON=sys.executable) as url:
        lines = run(folder, MATCH.format(url=url, settings={}, folder=folder, after=after)).splitlines()
    for name in ("replicate", "shard", "stream", "cli"):
        assert pairs_of(folder / name) == expected(), name
    rows, summary = map(json.loads, lines)
    assert all(row["home"] == f"{row['root']}/whimbrel/__init__.py" for row in rows), rows
    assert (summary["events"], summary["pairs"]) == (len(EVENTS), len(expected()))
