"""Bulk loads of the index: every shape of input, refused ones, and errors that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa
import pytest

from whimbrel import Filter, Index, WhimbrelError
from whimbrel.engine.intake.subscriptions import BadSubscriptions
from whimbrel.model import dialects
from whimbrel.model import expression as x
from whimbrel.model.errors import DuplicateId, EventError, IdKindError, LimitExceeded, UnknownDialect, UnknownId


@pytest.mark.parametrize("kind", ["list", "table", "generator"])
def test_many_are_added_in_any_shape(kind: str) -> None:
    texts = ["a = 1", "a > 0", "b IS NULL"]
    shapes: dict[str, Callable[[], Any]] = {
        "list": lambda: list(enumerate(texts)),
        "table": lambda: pa.table(
            {"id": pa.array([0, 1, 2], pa.uint8()), "filter": pa.array(texts).dictionary_encode()}
        ),
        "generator": lambda: ((id, Filter.parse(text)) for id, text in enumerate(texts)),
    }
    index = Index()
    told: list[int] = []
    index.add_many(shapes[kind](), progress=told.append)
    assert index.match({"a": 1}) == [0, 1, 2] and told[-1:] == [3]
    index.add_many([])
    index.add_many(pa.table({"id": pa.array([], pa.int64()), "filter": pa.array([], pa.string())}))
    assert list(index) == [0, 1, 2]


def test_a_table_may_say_the_dialect_of_each_row() -> None:
    index = Index()
    index.add_many(pa.table({"id": ["x", "y"], "filter": ["a = 1", "b = 1"], "dialect": ["sql", None]}))
    assert index.match({"a": 1, "b": 1}) == ["x", "y"]
    with pytest.raises(BadSubscriptions) as caught:
        index.add_many(pa.table({"id": ["z", "w"], "filter": ["a = 1", "a = 1"], "dialect": ["sql", "latin"]}))
    assert [row for row, _ in caught.value.errors] == [1]
    with pytest.raises(UnknownDialect):
        index.add_many([("z", "a = 1")], dialect="latin")


REFUSED: list[tuple[list[tuple[Any, Any]] | pa.Table, type[Exception]]] = [
    ([(5, "a = 1"), (6, "a =")], BadSubscriptions),
    ([(5, "a = 1"), (6, None)], BadSubscriptions),
    ([(5, "a = 1"), (6, "a = '\ud800'")], BadSubscriptions),
    ([(5, "a = 1"), (5, "a = 2")], DuplicateId),
    ([(5, "a = 1"), (0, "a = 2")], DuplicateId),
    ([(5, "a = 1"), ("x", "a = 2")], IdKindError),
    ([(5, "a = 1"), (True, "a = 2")], IdKindError),
    ([(5, "a = 1"), (2**63, "a = 2")], IdKindError),
    (pa.table({"id": [5], "text": ["a = 1"]}), ValueError),
    (pa.table({"id": [5, None], "filter": ["a = 1", "a = 1"]}), ValueError),
    (pa.table({"id": [5, 6], "filter": ["a = 1", None]}), ValueError),
    ([(5, "a = 1"), (6, " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(11)))], BadSubscriptions),
]


@pytest.mark.parametrize(("load", "error"), REFUSED, ids=range(len(REFUSED)))
def test_a_load_that_is_refused_changes_nothing(load: Any, error: type[Exception]) -> None:
    index = Index()
    index.add(0, "a = 1")
    with pytest.raises(error):
        index.add_many(load)
    assert list(index) == [0] and index.match({"a": 1}) == [0]
    index._check()
    index.add_many([(5, "a = 1"), (6, "a = 1")])
    assert index.match({"a": 1}) == [0, 5, 6]


def test_a_refused_load_names_every_bad_row() -> None:
    with pytest.raises(BadSubscriptions, match=r"row 1 has a bad one \(and 1 more\)") as caught:
        Index().add_many([(0, "a = 1"), (1, "a ="), (2, "b = 1"), (3, "= b")])
    assert [row for row, _ in caught.value.errors] == [1, 3]


def test_errors_are_typed_and_change_nothing() -> None:
    index = Index()
    index.add("x", "a = 1")
    calls: list[tuple[Callable[[], object], type[WhimbrelError]]] = [
        (lambda: index.add("x", "b = 1"), DuplicateId),
        (lambda: index.add(1, "b = 1"), IdKindError),
        (lambda: index.add("y", "b ="), WhimbrelError),
        (lambda: index.add("y", "b = 1", dialect="latin"), UnknownDialect),
        (lambda: index.add("y", " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(11))), LimitExceeded),
        (lambda: index.add("y", Filter(x.Compare("a", "=", "x" * (1 << 20)))), LimitExceeded),
        (lambda: index.replace("y", "b = 1"), UnknownId),
        (lambda: index.replace("x", "b ="), WhimbrelError),
        (lambda: index.remove("y"), UnknownId),
        (lambda: index["y"], UnknownId),
        (lambda: index.plan("y"), UnknownId),
        (lambda: index.explain("y", {}), UnknownId),
        (lambda: index.match({"a": b"1"}), EventError),
        (lambda: index.match_batch([{"a": 1}, {"a": b"1"}]), EventError),
        (lambda: index.match_batch({"a": 1}), EventError),
        (lambda: index.match_batch(7), EventError),
    ]
    for call, error in calls:
        with pytest.raises(error):
            call()
        index._check()
        assert index.match({"a": 1}) == ["x"] and len(index) == 1
    assert "y" not in index and 1 not in index and None not in index


class _Pairs:
    """A dialect of pairs, which have no text."""

    def parse(self, source: object) -> Filter:
        attribute, value = cast("tuple[str, int]", source)
        return Filter(x.Compare(attribute, "=", value), None, "pairs")

    def print(self, filter: Filter) -> str:
        return "no text"


def test_a_filter_without_text_is_kept_as_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dialects._REGISTRY, "pairs", _Pairs())
    index = Index()
    index.add("a", ("x", 1), dialect="pairs")
    index.add("b", "y = 1")
    index.replace("b", ("x", 1), dialect="pairs")
    assert index.subscriptions().to_pylist() == [{"id": id, "filter": "x = 1", "dialect": "sql"} for id in ("a", "b")]
    index.merge()
    assert index["a"].filter == Filter.parse("x = 1") and index.match({"x": 1}) == ["a", "b"]
    again = Index()
    again.add_many(index.subscriptions())
    assert again.match({"x": 1}) == ["a", "b"]
