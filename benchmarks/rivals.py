"""All rivals by the names that `--rivals` knows. To import this module registers them."""

from benchmarks import duckdb_join, papers, polars_join
from benchmarks.pipeline.access_join import AccessJoin
from benchmarks.pipeline.counting import CountingJoin
from benchmarks.pipeline.nested_loop import NestedLoopJoin
from whimbrel.lab.measure.matching.naive_loop import RIVALS
from whimbrel.lab.measure.pipeline.spark_rival import SPARK_RIVALS

RIVALS |= {"duckdb": duckdb_join.rivals, "polars": polars_join.rivals, "papers": papers.rivals}
SPARK_RIVALS |= {"access": AccessJoin, "nested": NestedLoopJoin, "counting": CountingJoin}

__all__ = ["RIVALS", "SPARK_RIVALS"]
