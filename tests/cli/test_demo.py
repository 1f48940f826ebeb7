"""The second chapter of the demo: it streams, takes up a change, and what it shows is true."""

from __future__ import annotations

import io

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from whimbrel.cli.demo import stream as demo_stream

pytestmark = pytest.mark.spark


class Ready:
    """A session that need not be waited for."""

    def __init__(self, spark: SparkSession) -> None:
        self.get = lambda: spark


def test_the_stream_takes_up_a_subscription_and_agrees_with_the_library(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ALERTS": 2_000, "QUOTES": 3_000, "SECONDS": 1.0, "_CHECKED": 1_000}.items():
        monkeypatch.setattr(demo_stream, name, value)
    monkeypatch.setattr(demo_stream, "_NEW", (2_000, "volume >= 1"))
    text = io.StringIO()
    chapter = demo_stream.play(Console(file=text, width=100), Ready(spark))  # type: ignore[arg-type]
    assert (chapter.events, chapter.checked) == (3_000, 1_000)
    assert set(chapter.versions.values()) == {1, 2}
    assert 0 < chapter.new_pairs < chapter.events
    assert chapter.to_dict()["pairs"] == chapter.pairs > chapter.new_pairs
    assert 0 < chapter.to_dict()["median_ms"] <= max(chapter.latencies)  # type: ignore[operator]
    for part in (
        "2,000 alerts",
        "median time of a micro-batch",
        "version 2: subscription 2000 added",
        "Summary",
        "1,000 the same",
    ):
        assert part in text.getvalue()
