"""Paths as Spark writes them are understood, and files are read as the command line reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from whimbrel.pipeline.connectors.files import InputFormat, absolute, is_remote, local, read, recognise
from whimbrel.pipeline.connectors.staged_outputs import StagedOutputs
from whimbrel.pipeline.errors import RemotePath
from whimbrel.pipeline.index.store import local_path
from whimbrel.readers.csv_table import read_csv

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_file_uri_is_a_local_path(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "a b.csv").write_text("id\n1\n")
    path = f"{scheme}{tmp_path}/{'a%20b.csv' if scheme else 'a b.csv'}"
    assert local(path) == tmp_path / "a b.csv"
    assert not is_remote(path) and absolute(path) == path
    assert recognise(path) is InputFormat.CSV
    assert "is there" in str(StagedOutputs(overwrite=False).problem(path))


@pytest.mark.parametrize("path", ["s3://bucket/a.csv", "hdfs:/a.csv"])
def test_a_path_with_another_scheme_is_left_to_spark(path: str) -> None:
    assert is_remote(path) and absolute(path) == path
    assert recognise(path) is InputFormat.CSV
    with pytest.raises(RemotePath, match=path):
        local_path(path)


@pytest.mark.spark
def test_a_csv_has_the_types_that_the_command_line_gives_it(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("id,sold,odd,code\n1,True,true,007\n2,FALSE,yes,8\n")
    with path.open("rb") as stream:
        ((_, batch),) = (one for one in read_csv(stream, "events.csv") if isinstance(one, tuple))
    frame = read(spark, str(path), InputFormat.CSV)
    assert [str(kind) for kind in batch.schema.types] == ["int64", "bool", "string", "string"]
    assert [kind for _, kind in frame.dtypes] == ["bigint", "boolean", "string", "string"]
    assert [row.asDict() for row in frame.orderBy("id").collect()] == batch.to_pylist()
