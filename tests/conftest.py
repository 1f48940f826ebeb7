"""Hypothesis profiles, chosen with --hypothesis-profile, and a Java that suits short lives."""

import os

from hypothesis import HealthCheck, settings

# Time limits per example measure how busy the machine is, not the code: speed belongs in benchmarks/.
_COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("default", _COMMON, max_examples=60)
settings.register_profile("ci", _COMMON, max_examples=100, derandomize=True, database=None, print_blob=True)
settings.register_profile("soak", _COMMON, max_examples=5_000, stateful_step_count=200, print_blob=True)
settings.load_profile("default")

# Every Spark that a test starts, also those of commands and of the pages, lives for seconds: compiling Java well, and
# compiling Java for each query, would take more of two cores than the tests themselves.
os.environ.setdefault(
    "SPARK_SUBMIT_OPTS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.sql.codegen.wholeStage=false -Dspark.sql.adaptive.enabled=false",
)
