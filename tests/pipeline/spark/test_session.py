"""The session: what it sets, what the caller may change, and how quiet it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from importlib.metadata import requires
from pathlib import Path

import pytest

from whimbrel.pipeline.spark.session import _CONNECT

pytestmark = pytest.mark.spark


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A program in a process of its own: settings of a context count only in a fresh one."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name == "SPARK_SUBMIT_OPTS" or not name.startswith(("PYSPARK_", "SPARK_"))
    }
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_session_has_safe_settings_that_the_caller_can_change_and_says_nothing(
    tmp_path: Path,
) -> None:
    python = tmp_path / "python"  # the interpreter of the cluster's machines is the one that the environment names
    python.write_text(f'#!/bin/sh\nMARK=cluster exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    program = """
        from whimbrel.pipeline import session
        spark = session("local[1]", name="mine", settings={
            "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
            "spark.whimbrel.test": "x",
        })
        conf = spark.sparkContext.getConf()
        assert conf.get("spark.app.name") == "mine"
        assert conf.get("spark.master") == "local[1]"
        assert conf.get("spark.driver.host") == "127.0.0.1"
        assert conf.get("spark.ui.enabled") == "false"
        assert conf.get("spark.whimbrel.test") == "x"
        assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
        assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "100"
        assert session() is spark
        assert spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") == "32768"

        def interpreters(batches):
            import os, pyarrow as pa
            rows = [batch.num_rows for batch in batches]
            yield pa.RecordBatch.from_pydict({"python": [os.environ["MARK"]], "rows": [max(rows)]})

        (row,) = spark.range(0, 70_000, numPartitions=1).mapInArrow(interpreters, "python string, rows long").collect()
        assert row.python == "cluster", row
        assert row.rows == 32_768, row

        def fail(batches):
            raise ValueError("the worker's own words")

        try:
            spark.range(1).mapInArrow(fail, "id long").collect()
        except Exception as error:
            assert "the worker's own words" in str(error)
        else:
            raise AssertionError("no error")
        spark.stop()
    """
    done = run(program, PYSPARK_PYTHON=str(python))
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("WARNING: ")]  # Java's own, at its start
    assert said == []


@pytest.mark.parametrize("module", ["grpc", "grpc_status", "google.rpc", "zstandard"])
def test_a_package_of_spark_connect_that_is_missing_is_named(module: str) -> None:
    program = f"""
        import sys
        sys.modules[{module!r}] = None
        from whimbrel.pipeline import session
        session("sc://127.0.0.1:1")
    """
    done = run(program)
    assert done.returncode == 1, done
    assert "pip install 'whimbrel[spark]'" in done.stderr.splitlines()[-1], done.stderr


def test_the_packages_of_spark_connect_are_those_that_spark_names() -> None:
    needed = {re.split(r"[^\w-]", line)[0] for line in requires("pyspark") or () if 'extra == "connect"' in line}
    assert needed - {"pandas", "pyarrow", "numpy"} == set(_CONNECT)
