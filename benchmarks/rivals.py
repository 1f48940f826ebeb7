"""All rivals by the names that `--rivals` knows."""

from benchmarks import duckdb_join, papers, polars_join
from benchmarks.pipeline.access_join import AccessJoin
from benchmarks.pipeline.counting import CountingJoin
from benchmarks.pipeline.nested_loop import NestedLoopJoin
from whimbrel.lab.measure.matching import naive_loop
from whimbrel.lab.measure.matching.rival import RivalMaker
from whimbrel.lab.measure.pipeline.spark_rival import SparkRivalMaker

MATCHING: dict[str, RivalMaker] = {
    **naive_loop.RIVALS,
    "duckdb": duckdb_join.rivals,
    "polars": polars_join.rivals,
    "papers": papers.rivals,
}
"""Rivals of the engine."""

PIPELINE: dict[str, SparkRivalMaker] = {"access": AccessJoin, "nested": NestedLoopJoin, "counting": CountingJoin}
"""Rivals of matching on Spark."""
