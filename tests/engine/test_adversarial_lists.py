"""Lists and arrays of objects that are long, full of duplicates and nulls, or everywhere."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from tests.engine.test_index import check_answers, pairs
from whimbrel import Filter, Index
from whimbrel.model.errors import LimitExceeded


def test_a_list_with_as_many_values_as_allowed() -> None:
    index = Index()
    index.add_many((n, f"a = {n}") for n in range(0, 200_000, 100))
    index.add_many(
        (n, text) for n, text in enumerate(["a > 99999", "a < 0 AND b = 1", "a CONTAINS ALL (0, 99999)"], 10**6)
    )
    event = {"a": list(range(100_000)), "b": 1}
    with pytest.raises(LimitExceeded):
        index.match(event)
    del event["b"]
    assert index.match(event) == [*range(0, 100_000, 100), 10**6 + 2]
    assert sorted(pairs(index.match_batch(pa.table({"a": [list(range(100_000))]}))))[-1] == (0, 10**6 + 2)


def test_lists_in_every_attribute_of_a_key() -> None:
    """A key of three attributes could be asked for every combination of their values."""
    index = Index()
    rng = random.Random(3)
    wanted = [[rng.randrange(40) for _ in "abc"] for _ in range(5_000)]
    index.add_many((id, "a = {} AND b = {} AND c = {}".format(*values)) for id, values in enumerate(wanted))
    index.add_many((5_000 + id, "a = {} AND b = {} AND d = 1".format(*values)) for id, values in enumerate(wanted))
    assert index.match({name: list(range(40)) for name in "abc"}) == list(range(5_000))
    assert index.match({name: [n / 100 + 0.001 for n in range(30_000)] for name in "abc"}) == []
    has = [set(rng.sample(range(40), 30)) for _ in "abc"]
    both = [id for id, (a, b, _) in enumerate(wanted) if a in has[0] and b in has[1]]
    found = index.match({"a": [*has[0]], "b": [*has[1], "x"], "c": [*has[2], 0.5, None], "d": [1, 2]})
    assert found == [id for id in both if wanted[id][2] in has[2]] + [5_000 + id for id in both]


def test_long_lists_in_filters() -> None:
    members = ", ".join(str(3 * n) for n in range(1_500))
    texts = [
        f"a IN ({members})",
        f"a NOT IN ({members})",
        f"a CONTAINS ALL ({members})",
        f"a CONTAINS NONE ({members})",
    ]
    texts += [f"a CONTAINS ANY ({members}) AND b = 1", f"NOT (a IN ({members})) AND b = 1"]
    kept = {id: Filter.parse(text) for id, text in enumerate(texts)}
    index = Index()
    index.add_many(kept.items())
    all_of_them = [3 * n for n in range(1_500)]
    batch = [
        {"a": 3},
        {"a": 4},
        {"a": [3, 4], "b": 1},
        {"a": all_of_them},
        {"a": [*all_of_them, "x"], "b": 1},
        {"b": 1},
    ]
    check_answers(index, kept, batch)


def test_a_thousand_conjunctions_are_one_subscription() -> None:
    index = Index()
    index.add_many([("or", " OR ".join(f"(a{n} = {n} AND b{n} > {n})" for n in range(1_000))), ("other", "a5 = 5")])
    index.add("and", " AND ".join(f"(c{n} = 1 OR d{n} = 1)" for n in range(10)))
    event = {f"a{n}": n for n in range(1_000)} | {f"b{n}": n + 1 for n in range(1_000)}
    event |= {f"{letter}{n}": 1 for n in range(10) for letter in "cd"}
    for _ in range(2):
        assert index.match(event) == ["or", "other", "and"]
        assert sorted(pairs(index.match_batch([event, {"a7": 7, "b7": 8}]))) == [
            (0, "and"), (0, "or"), (0, "other"), (1, "or"),
        ]  # fmt: skip
        index.merge()
    assert len(index.plan("or")["conjunctions"]) == 1_000  # type: ignore[arg-type]


def test_lists_with_duplicates_and_nulls() -> None:
    texts = ["a = 1", "a != 1", "a IS NULL", "a IS MISSING", "a CONTAINS NULL", "a CONTAINS ALL (1, NULL)", "a > 0"]
    texts += ["a CONTAINS NONE (NULL)", "a NOT IN (1, 2)", "a BETWEEN 1 AND 2 AND b = 1", "a = 1 AND b = 1 AND c = 1"]
    kept = {id: Filter.parse(text) for id, text in enumerate(texts * 30)}
    lists: list[Any] = [
        [],
        [None],
        [1],
        [1, 1],
        [1, 1.0, True],
        [None, None, 1],
        [2, 1, 2],
        [[1], [[2]], None],
        ["1", 3],
    ]
    batch: list[dict[str, Any]] = [{"a": values} for values in lists]
    batch += [{"a": values, "b": [1, 1, None], "c": [1, 1]} for values in lists]
    index = Index()
    index.add_many(kept.items())
    check_answers(index, kept, batch)


def test_arrays_of_objects_bind_their_attributes_together() -> None:
    texts = [
        "d.x = 1 AND d.y = 2",
        "d.x = 1 AND d.y != 2",
        "d.x < d.y",
        "d.x = 1 OR d.y = 5",
        "d.x IS NULL AND d.y = 2",
    ]
    texts += ["d.x CONTAINS ALL (1, 2)", "d.e.x = 1 AND d.y = 2", "a = d.x", "d.x = 1 AND a = 1"]
    kept = {id: Filter.parse(text) for id, text in enumerate(texts * 20)}
    batch: list[dict[str, Any]] = [
        {"d": [{"x": 1, "y": 2}, {"x": 2, "y": 1}]},
        {"d": [{"x": 1, "y": 1}, {"x": 2, "y": 2}]},
        {"d": [{"x": [1, 2]}, {"y": 2}], "a": 1},
        {"d": [{"x": 1, "e": [{"x": 1}, {"x": 2}]}, {"y": 2, "e": {"x": 1}}]},
        {"d": [1, {"x": 2, "y": 5}], "a": [1, 2]},
        {"d": [], "a": 1},
        {"d": {"x": 1}, "d.y": 2},
    ]
    index = Index()
    index.add_many(kept.items())
    check_answers(index, kept, batch)
