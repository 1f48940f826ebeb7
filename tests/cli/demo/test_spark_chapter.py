"""The second chapter of the demo: it streams, takes up a change, and what it shows is true."""

from __future__ import annotations

import io

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from whimbrel.cli.demo import spark_chapter
from whimbrel.cli.demo.spark_chapter import play
from whimbrel.lab.quote_stream import StreamSizes

pytestmark = pytest.mark.spark


class Ready:
    """A session that need not be waited for."""

    def __init__(self, spark: SparkSession) -> None:
        self.get = lambda: spark


def test_the_stream_takes_up_a_subscription_and_agrees_with_the_library(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_chapter, "_AT_MOST", 600.0)  # a busy machine takes its time
    text = io.StringIO()
    sizes = StreamSizes(alerts=2_000, quotes=3_000, seconds=1.0, checked=1_000)
    totals = play(Console(file=text, width=100), Ready(spark), sizes)  # type: ignore[arg-type]
    assert (totals.events, totals.checked) == (3_000, 1_000)
    assert set(totals.versions.values()) == {1, 2}
    assert 0 < totals.new_pairs < totals.events
    assert totals.to_dict()["pairs"] == totals.pairs > totals.new_pairs
    assert 0 < totals.to_dict()["median_ms"] <= max(totals.latencies)  # type: ignore[operator]
    for part in (
        "2,000 alerts",
        "median time of a micro-batch",
        "version 2: subscription 2000 added",
        "Summary",
        "1,000 the same",
    ):
        assert part in text.getvalue()
