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
from whimbrel.pipeline.attributes import HandOver
from whimbrel.pipeline.transitions_bucket import Bucket, MatchStates
from whimbrel.pipeline.transitions_matching import code_table, exists, matcher
from whimbrel.pipeline.transitions_news import News
from whimbrel.pipeline.transitions_sticky import Rules, Sticky
from whimbrel.pipeline.transitions_updates import updates_schema

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
        self.codes = code_table("string")
        self.match: MatchStates = matcher(index, "string", HandOver((), {}), ())
        self.bucket = self.new()
        self.base: pa.Table | None = None
        self.deltas: list[pa.Table] = []

    def new(self) -> Bucket:
        leave, partial, ordered = self.options
        sticky = Sticky(Rules(leave), self.codes.code_of)
        return Bucket(ATTRIBUTES, pa.string(), sticky, ordered, partial)

    def write(self) -> None:
        base, changes = self.bucket.dump()
        if base is not None:
            self.base, self.deltas = base, []
        self.deltas += changes

    def read(self) -> None:
        version, self.bucket = self.bucket.version, self.new()
        self.bucket.load(version, [*([] if self.base is None else [self.base]), *self.deltas])

    def update(self, rows: list[dict[str, Any]]) -> list[Told]:
        columns = [
            {
                "key": row["key"], "sequence": row["n"], "deleted": bool(row["gone"]), "unset": row["un"],
                "a": row["a"], "b": row["b"], "d.x": (row["d"] or {}).get("x"), "tags": row["tags"],
            }
            for row in rows
        ]  # fmt: skip
        news = News(pa.string())
        self.bucket.apply(pa.Table.from_pylist(columns, EVENTS), self.match, 0.0, news)
        self.write()
        return self.told(news)

    def publish(self, version: int) -> list[Told]:
        news = News(pa.string())
        self.bucket.change_version(version, self.match, exists(self.index, "string", version, ()), news)
        self.write()
        return self.told(news)

    def told(self, news: News) -> list[Told]:
        keys, codes, kinds, sequences = news.columns()
        columns = (keys, self.codes.ids(codes), kinds, sequences)
        return [(*row, self.bucket.version) for row in zip(*(column.to_pylist() for column in columns), strict=True)]  # type: ignore[misc]


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
            store.read()
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
            store.read()
        told = store.update([{**row, "key": key, "gone": True} for key in keys])
        assert Counter(kind for _, _, kind, _, _ in told) == {"delete": 30}
        assert len(store.bucket) == 0
    assert len(store.update([{**row, "key": "0-0", "a": None}])) == 0  # nothing of what it was is left
    assert store.base is not None and len(store.base) + sum(map(len, store.deltas)) < 100


def test_attributes_may_be_called_like_anything(index: Path) -> None:
    attributes = pa.schema([("key", pa.int64()), ("alive", pa.string()), ("a", pa.int64())])
    codes = code_table("string")
    bucket = Bucket(attributes, pa.string(), Sticky(Rules(True), codes.code_of), partial=True)
    match = matcher(index, "string", HandOver((), {}), ())
    bucket.change_version(1, match, lambda code: True, News(pa.string()))
    head = [["p"], [1], [False], [None], [None]]
    for sequence, said in ((1, [7, "no", 1]), (2, [None, None, 2])):
        columns = [[*head[:1], [sequence], *head[2:]][number] for number in range(5)] + [[value] for value in said]
        schema = updates_schema(pa.string(), attributes)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        bucket.apply(pa.Table.from_arrays(arrays, schema=schema), match, 0.0, News(pa.string()))
    (base, changes) = bucket.dump()
    table = base if base is not None else changes[-1]
    assert [column.to_pylist() for column in table.columns] == [["p"], [2], [True], [7], ["no"], [2]]
