"""Spark, streaming: files of events arrive, matches are written exactly once, and the subscriptions change meanwhile.

Each micro-batch is matched against one version of the index. A version that is published while the stream runs counts
from the next micro-batch on. Needs the extra `spark`.

It prints:

    after the first file: [(1, 'hot')]
    after the second: [(1, 'hot'), (2, 'hot'), (2, 'very-hot')]
"""

import json
import tempfile
from pathlib import Path

from whimbrel.pipeline import compile_index, match_stream, session

spark = session()
schema = "event_id long, sensor string, celsius double"
hot, very_hot = ("hot", "celsius > 30"), ("very-hot", "celsius > 40 AND sensor = 's2'")


def publish(*subscriptions: tuple[str, str]) -> None:
    """Write a new version of the index."""
    compile_index(spark.createDataFrame(list(subscriptions), "id string, filter string"), f"{folder}/index")


def run(name: str, **reading: object) -> list[tuple[int, str]]:
    """Let a file arrive, process all that is there, and read what was matched so far."""
    (folder / "arriving" / name).write_text(json.dumps(reading))
    stream = spark.readStream.schema(schema).json(f"{folder}/arriving")
    writer = match_stream(stream, f"{folder}/index").writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    writer.format("parquet").trigger(availableNow=True).start(f"{folder}/matches").awaitTermination()
    matches = spark.read.parquet(f"{folder}/matches").collect()
    return sorted((row.event_id, row.subscription) for row in matches)


with tempfile.TemporaryDirectory() as temporary:
    folder = Path(temporary)
    (folder / "arriving").mkdir()
    publish(hot)
    print("after the first file:", run("1.json", event_id=1, sensor="s1", celsius=35.0))
    publish(hot, very_hot)
    print("after the second:", run("2.json", event_id=2, sensor="s2", celsius=44.5))
spark.stop()
