"""One bucket without Spark: the notifications of the model, whatever the batches, also when it is stored and loaded."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline.publishing import publish
from tests.pipeline.transitions_model import FILTERS, LATER, Model, Told, history
from whimbrel.pipeline.spark.transfer import HandOver
from whimbrel.pipeline.stages.transitions.cells import updates_schema
from whimbrel.pipeline.stages.transitions.worker_cache import versions
from whimbrel.publications.notifications import News
from whimbrel.publications.rules import Rules
from whimbrel.publications.state import Bucket, Written

ATTRIBUTES = pa.schema([("a", pa.int64()), ("b", pa.string()), ("d.x", pa.float64()), ("tags", pa.list_(pa.string()))])
EVENTS = updates_schema(pa.string(), ATTRIBUTES)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index")
    assert [publish(path, filters) for filters in (FILTERS, LATER, FILTERS)] == [1, 2, 3]
    return path


class Store:
    """A bucket as the processor keeps it: sometimes it is read back from what was written."""

    def __init__(self, index: Path, leave: bool, partial: bool, ordered: bool = True) -> None:
        self.index, self.options = index, (leave, partial, ordered)
        self.bucket = self.new()
        self.parts: list[Written] = []

    def new(self) -> Bucket:
        leave, partial, ordered = self.options
        rules = Rules(leave)
        open_version = versions(f"test {leave}", self.index, "string", HandOver((), {}), rules, ())
        return Bucket(ATTRIBUTES, pa.string(), rules, open_version, ordered, partial)

    def write(self) -> None:
        written = self.bucket.dump()
        if written is not None:
            self.parts = [written] if written.is_base else [*self.parts, written]

    def read(self, with_matches: bool) -> None:
        version, self.bucket = self.bucket.version, self.new()
        self.bucket.load(version, [(part.states, part.matches if with_matches else None) for part in self.parts])

    def update(self, rows: list[dict[str, Any]]) -> list[Told]:
        columns = [
            {
                "key": row["key"], "sequence": row["n"], "deleted": bool(row["gone"]), "unset": row["un"],
                "a": row["a"], "b": row["b"], "d.x": (row["d"] or {}).get("x"), "tags": row["tags"],
            }
            for row in rows
        ]  # fmt: skip
        news = News(pa.string(), pa.string())
        self.bucket.apply(pa.Table.from_pylist(columns, EVENTS), 0.0, news)
        self.write()
        return self.told(news)

    def publish(self, version: int) -> list[Told]:
        news = News(pa.string(), pa.string())
        self.bucket.change_version(version, news)
        self.write()
        return self.told(news)

    def told(self, news: News) -> list[Told]:
        columns = [column.to_pylist() for column in news.columns()]
        return [(*row, self.bucket.version) for row in zip(*columns, strict=True)]  # type: ignore[misc]


@given(seed=st.integers(0, 2**32), partial=st.booleans(), leave=st.booleans(), keys=st.sampled_from([1, 3, 15]))
@settings(max_examples=60, deadline=None)
def test_histories_give_the_notifications_of_the_model(
    index: Path, seed: int, partial: bool, leave: bool, keys: int
) -> None:
    draw = random.Random(seed)
    store, model = Store(index, leave, partial), Model(leave, partial)
    assert store.publish(1) == model.publish(FILTERS, 1) == []
    rows = history(seed, 120, keys)
    while rows:
        size = draw.choice([1, 2, 7, 40])
        batch, rows = rows[:size], rows[size:]
        expected = model.update(batch)
        draw.shuffle(batch)  # the order of rows in a micro-batch is Spark's own
        assert Counter(store.update(batch)) == Counter(expected)
        if draw.random() < 0.3:
            store.read(draw.random() < 0.5)
        if draw.random() < 0.1 and model.version < 3:
            version = model.version + 1
            filters = LATER if version == 2 else FILTERS
            assert Counter(store.publish(version)) == Counter(model.publish(filters, version))
    assert len(store.bucket) == len(model.states)


def test_without_a_sequence_a_deleted_publication_is_forgotten(index: Path) -> None:
    store = Store(index, leave=False, partial=True, ordered=False)
    store.publish(1)
    row = {"n": None, "gone": None, "a": 1, "b": "v", "d": None, "tags": None, "un": None}
    for turn in range(5):
        keys = [f"{turn}-{number}" for number in range(30)]
        assert len(store.update([{**row, "key": key} for key in keys])) == 30
        if turn % 2:
            store.read(turn % 3 == 0)
        told = store.update([{**row, "key": key, "gone": True} for key in keys])
        assert Counter(kind for _, _, kind, _, _ in told) == {"delete": 30}
        assert len(store.bucket) == 0
    assert len(store.update([{**row, "key": "0-0", "a": None}])) == 0  # nothing of what it was is left
    assert sum(len(part.states) for part in store.parts) < 100


def test_attributes_may_be_called_like_anything(index: Path) -> None:
    attributes = pa.schema([("key", pa.int64()), ("alive", pa.string()), ("a", pa.int64())])
    rules = Rules(True)
    open_version = versions("test names", index, "string", HandOver((), {}), rules, ())
    bucket = Bucket(attributes, pa.string(), rules, open_version, partial=True)
    news = News(pa.string(), pa.string())
    bucket.change_version(1, news)
    head = [["p"], [1], [False], [None], [None]]
    for sequence, said in ((1, [7, "no", 1]), (2, [None, None, 2])):
        columns = [[*head[:1], [sequence], *head[2:]][number] for number in range(5)] + [[value] for value in said]
        schema = updates_schema(pa.string(), attributes)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        bucket.apply(pa.Table.from_arrays(arrays, schema=schema), 0.0, news)
    written = bucket.dump()
    assert written is not None
    assert [column.to_pylist() for column in written.states.columns] == [["p"], [2], [True], [7], ["no"], [2]]
