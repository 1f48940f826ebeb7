"""All rivals. Importing this module registers them, those of matching and Spark by the names that `--rivals` knows."""

from functools import partial

from benchmarks import duckdb_join, papers, polars_join
from benchmarks.broker_rivals import NatsJetStream, RedisStreams, measure
from benchmarks.pipeline.access_join import AccessJoin
from benchmarks.pipeline.counting import CountingJoin
from benchmarks.pipeline.nested_loop import NestedLoopJoin
from whimbrel.lab.measure.broker_bench import RIVALS as BROKER_RIVALS
from whimbrel.lab.measure.matching.naive_loop import RIVALS
from whimbrel.lab.measure.pipeline.spark_rival import SPARK_RIVALS

RIVALS |= {"duckdb": duckdb_join.rivals, "polars": polars_join.rivals, "papers": papers.rivals}
SPARK_RIVALS |= {"access": AccessJoin, "nested": NestedLoopJoin, "counting": CountingJoin}
BROKER_RIVALS += [partial(measure, NatsJetStream()), partial(measure, RedisStreams())]

__all__ = ["BROKER_RIVALS", "RIVALS", "SPARK_RIVALS"]
