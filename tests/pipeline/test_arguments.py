"""Arguments of a wrong type are refused at the call, with the option, what was expected and what came."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.publishing import publish
from whimbrel.pipeline import (
    StreamOptions,
    TransitionOptions,
    backtest,
    compile_index,
    conform,
    deliver,
    explain,
    match,
    match_stream,
    session,
    statistics,
    transitions,
)
from whimbrel.pipeline.errors import BadOption
from whimbrel.pipeline.index.batches import gc
from whimbrel.pipeline.index.store import IndexStore

pytestmark = pytest.mark.spark

Call = Callable[..., object]
WRONG: list[tuple[Call, str, object]] = [
    *((match, option, 5) for option in ("events", "subscriptions", "json", "timestamps")),
    (match, "timestamps", None),
    (match, "budget", True),
    *((match_stream, option, 5) for option in ("events", "index", "json", "timestamps", "adopt")),
    (explain, "options", 5),
    *((transitions, option, 5) for option in ("updates", "index", "key", "sequence", "deleted", "leave", "options")),
    (transitions, "partial", "yes"),
    (transitions, "leave", "all"),
    (transitions, "leave", ["text"]),
    *((TransitionOptions, option, 5) for option in ("unset", "outer", "dwell", "time", "lateness", "timestamps")),
    (TransitionOptions, "initial", 5),
    (TransitionOptions, "outer", {1: "text"}),
    (TransitionOptions, "dwell", {1: "soon"}),
    (TransitionOptions, "dwell", {1: -1.0}),
    *((conform, option, 5) for option in ("events", "schema", "json")),
    *((compile_index, option, 5) for option in ("subscriptions", "path", "events")),
    *((deliver, option, 5) for option in ("matches", "to", "format", "owners", "events", "run", "stream")),
    (deliver, "partition_by", 5),
    (deliver, "partition_by", "nope"),
    (deliver, "group", "nope"),
    (StreamOptions, "checkpoint", 5),
    (StreamOptions, "every", "5"),
    (StreamOptions, "every", -1),
    (StreamOptions, "once", "yes"),
    *((backtest, option, 5) for option in ("events", "subscriptions", "time", "json", "timestamps")),
    *((statistics, option, 5) for option in ("events", "attributes")),
    (gc, "path", 5),
    (gc, "forget", "query"),
    (gc, "forget", [5]),
    (session, "master", 5),
    (session, "settings", 5),
    (IndexStore, "path", 5),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("arguments") / "index"
    publish(path, {1: "price > 5"})
    return path


@pytest.fixture(scope="module")
def good(spark: SparkSession, index: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[Call, dict[str, Any]]:
    """Arguments of each function that are right."""
    home = tmp_path_factory.mktemp("places")
    events = spark.createDataFrame([(1, 7.0)], "id bigint, price double")
    stream: DataFrame = spark.readStream.format("rate").load().selectExpr("value AS id", "value AS price", "timestamp")
    pairs = spark.createDataFrame([(1, 1)], "id bigint, subscription bigint")
    filters = spark.createDataFrame([(1, "price > 5")], "id bigint, filter string")
    return {
        match: {"events": events, "subscriptions": index},
        match_stream: {"events": stream, "index": index},
        explain: {"events": events, "subscriptions": index},
        transitions: {"updates": stream, "index": index, "key": "id"},
        conform: {"events": events, "schema": events.schema},
        compile_index: {"subscriptions": filters, "path": home / "index"},
        deliver: {"matches": pairs, "to": home / "to"},
        StreamOptions: {"checkpoint": home / "checkpoint"},
        backtest: {"filter": "price > 5", "events": events, "subscriptions": index},
        statistics: {"events": events},
        gc: {"path": index},
    }


@pytest.mark.parametrize(("call", "option", "wrong"), WRONG)
def test_wrong_arguments_are_refused_at_the_call(
    good: dict[Call, dict[str, Any]], call: Call, option: str, wrong: object
) -> None:
    arguments = {**good.get(call, {}), option: wrong}
    if call is TransitionOptions:
        more: Any = {"time": "timestamp", "dwell": {1: 5.0}, option: wrong}
        call, arguments = transitions, {**good[transitions], "partial": True, "options": TransitionOptions(**more)}
    with pytest.raises(BadOption) as raised:
        call(**arguments)
    assert raised.value.option == option


def test_streams_and_frames_at_rest_are_not_mistaken(good: dict[Call, dict[str, Any]]) -> None:
    stream, rest = good[match_stream]["events"], good[match]["events"]
    for call, option, wrong in (
        (match_stream, "events", rest),
        (transitions, "updates", rest),
        (backtest, "events", stream),
        (statistics, "events", stream),
        (compile_index, "subscriptions", stream),
        (compile_index, "events", stream),
    ):
        with pytest.raises(BadOption, match="a streaming DataFrame" if wrong is rest else "a DataFrame at rest"):
            call(**{**good[call], option: wrong})
