"""Paths as Spark writes them are understood, and files are read as the command line reads them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from whimbrel.pipeline.connectors.files import InputFormat, absolute, is_remote, local, read, read_stream, recognise
from whimbrel.pipeline.connectors.staged_outputs import StagedOutputs
from whimbrel.pipeline.connectors.subscription_files import read_subscriptions
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


@pytest.mark.spark
def test_cells_of_csv_are_those_that_the_command_line_reads(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text('id,a,b\n1,"say ""hi"", twice",x\n2,"C:\\",y\n3,"two\nlines",z\n4, spaced ,""\n5,\\,\n')
    with path.open("rb") as stream:
        ((_, batch),) = (one for one in read_csv(stream, "events.csv") if isinstance(one, tuple))
    (tmp_path / "in").mkdir()
    path.rename(tmp_path / "in" / "events.csv")
    streamed = read_stream(spark, str(tmp_path / "in"), InputFormat.CSV, 1)
    query = streamed.writeStream.format("memory").queryName("cells").trigger(availableNow=True).start()
    query.awaitTermination()
    for frame in (read(spark, str(tmp_path / "in"), InputFormat.CSV), spark.table("cells")):
        assert [row.asDict() for row in frame.orderBy("id").collect()] == batch.to_pylist()


@pytest.mark.spark
def test_signs_of_patterns_in_a_path_are_signs_of_its_name(spark: SparkSession, tmp_path: Path) -> None:
    for name, text in (("a[1]{x}*.jsonl", "right"), ("a1x.jsonl", "wrong")):
        (tmp_path / name).write_text(f'{{"a": "{text}"}}\n')
    for path in (f"{tmp_path}/a[1]{{x}}*.jsonl", f"file://{tmp_path}/a%5B1%5D%7Bx%7D*.jsonl"):
        assert [row.value for row in read(spark, path, InputFormat.JSON).collect()] == ['{"a": "right"}']


@pytest.mark.spark
def test_subscriptions_of_csv_are_text_whatever_their_cells_look_like(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "subscriptions.csv"
    for content, rows in (
        ("id,filter\n1,TRUE\n2,false\n", [(1, "TRUE"), (2, "false")]),
        ("id,filter\n1.5,a = 1\n2,1 = 1\n", [("1.5", "a = 1"), ("2", "1 = 1")]),
        (f"id,filter\n{2**63},a\n007,b\n", [("007", "b"), (str(2**63), "a")]),
        ('id,filter,more\n1,"""odd name"" = \'x\'\nAND b",2\n', [(1, "\"odd name\" = 'x'\nAND b")]),
    ):
        path.write_text(content)
        found = read_subscriptions(spark, str(path), None).rows
        assert [tuple(row) for row in found.orderBy("id").collect()] == rows
