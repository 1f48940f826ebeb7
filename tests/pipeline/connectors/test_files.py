"""Paths as Spark writes them are understood."""

from __future__ import annotations

from pathlib import Path

import pytest

from whimbrel.pipeline.connectors.files import InputFormat, absolute, is_remote, local, recognise
from whimbrel.pipeline.connectors.staged_outputs import StagedOutputs


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_a_file_uri_is_a_local_path(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "a b.csv").write_text("id\n1\n")
    path = f"{scheme}{tmp_path}/{'a%20b.csv' if scheme else 'a b.csv'}"
    assert local(path) == tmp_path / "a b.csv"
    assert not is_remote(path) and absolute(path) == path
    assert recognise(path) is InputFormat.CSV
    assert "is there" in str(StagedOutputs(overwrite=False).problem(path))
    assert is_remote("s3://bucket/a.csv")
