"""Outputs of a batch: all at their places or none, and the same files on every file system."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from whimbrel.pipeline.connectors.staged_outputs import OutputFormat, StagedOutputs

pytestmark = pytest.mark.spark


def test_csv_has_a_header_on_other_file_systems_too(spark: SparkSession, tmp_path: Path) -> None:
    settings = spark.sparkContext._jsc.hadoopConfiguration()  # type: ignore[union-attr]
    settings.set("fs.viewfs.mounttable.elsewhere.link./out", f"file://{tmp_path}")
    rows = spark.createDataFrame([(1, "a"), (2, "b")], "event_id bigint, subscription string").coalesce(1)
    with StagedOutputs(overwrite=False) as outputs:
        outputs.write(rows, "viewfs://elsewhere/out/remote.csv", OutputFormat.CSV)
        outputs.write(rows, str(tmp_path / "local.csv"), OutputFormat.CSV)
    for name in ("remote.csv", "local.csv"):
        (file,) = (tmp_path / name).glob("part-*.csv")
        assert file.read_text() == "event_id,subscription\n1,a\n2,b\n"


def test_nothing_is_left_after_an_error(spark: SparkSession, tmp_path: Path) -> None:
    def write_and_fail() -> None:
        with StagedOutputs(overwrite=False) as outputs:
            outputs.write(spark.range(2), str(tmp_path / "out.parquet"), OutputFormat.PARQUET)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_and_fail()
    assert list(tmp_path.iterdir()) == []
