"""Errors of Spark in one sentence, without Java."""

from __future__ import annotations

from whimbrel.pipeline.spark.failures import reason_of


def test_reasons_are_taken_out_of_the_errors_of_spark() -> None:
    worker = """[JOB_FAILED] Job aborted. SQLSTATE: XXKDA
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
  File "/x/matcher.py", line 2, in _decoded
    raise EventError()
whimbrel.model.errors.EventError: Expected JSON, but got 'x'
  x
  ^

\tat org.apache.spark.api.python.BasePythonRunner.next(PythonRunner.scala:1)
"""
    stream = worker.replace("  ^\n\n", "  ^\n SQLSTATE: 38000\n=== Streaming Query ===\nIdentifier: [id = 1]\n\n")
    assert reason_of(stream) == reason_of(worker) == "Expected JSON, but got 'x'\n  x\n  ^"
    java = """An error occurred while calling o5.save.
: org.apache.spark.SparkException: [FAILED_READ_FILE] Error while reading file file:///data/a.parquet. SQLSTATE: KD001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.x(QueryExecutionErrors.scala:1)
Caused by: java.io.IOException: can not read class
\tat java.base/java.lang.Thread.run(Thread.java:1)
"""
    assert reason_of(java) == "Error while reading file file:///data/a.parquet: can not read class"
