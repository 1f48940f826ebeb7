"""Shapes that break indexes: all alike, all distinct, at the ends of every domain, empty, and huge."""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.engine.test_index import block_pairs, check_answers, expected, pairs
from tests.strategies import NUMBERS, STRINGS, TIMESTAMPS
from whimbrel import Filter, Index
from whimbrel.engine.matching import workspace as workspaces
from whimbrel.model import expression as x
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.values import Timestamp

MANY = [10_000, pytest.param(1_000_000, marks=pytest.mark.soak)]
"""How many subscriptions: enough for dozens of chunks, or a million."""

IDENTICAL = {
    "hash": ("a = 1", {"a": 1}, {"a": 2}),
    "hash of three": ("a = 1 AND b = 2 AND c = 3", {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 4}),
    "run": ("a > 1", {"a": 2}, {"a": 1}),
    "bits": ("a BETWEEN 1 AND 5 AND b != 3 AND c < 9", {"a": 3, "b": 4, "c": 5}, {"a": 3, "b": 3, "c": 5}),
    "null": ("a IS NULL", {"a": None}, {"a": 1}),
    "everything": ("TRUE", {}, None),
    "nothing": ("a = 1 AND a = 2", None, {"a": [1, 2]}),
    "in": ("a IN (1, 2, 3)", {"a": [1, 2, 3, 4]}, {"a": [4, None]}),
    "or": ("a = 1 OR b = 1 OR c > 5", {"a": 1, "b": 1, "c": 9}, {"a": 2, "c": 5}),
    "members": ("a CONTAINS ALL (1, 2)", {"a": [2, 1, 1]}, {"a": [1, 1]}),
}


def table_of(text: str, count: int) -> pa.Table:
    return pa.table(
        {"id": np.arange(count), "filter": pa.array([text], pa.string()).take(pa.array(np.zeros(count, int)))}
    )


@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize("kind", IDENTICAL)
def test_identical_filters_all_match_or_none(kind: str, count: int) -> None:
    text, hit, miss = IDENTICAL[kind]
    index = Index()
    index.add_many(table_of(text, count))
    if hit is not None:
        assert index.match(hit) == list(range(count))
        for offsets, rows in index.match_blocks([hit] * 3):
            assert (np.diff(offsets) == count).all()
            assert all((np.sort(rows[i:j]) == np.arange(count)).all() for i, j in pairwise(offsets))
    if miss is not None:
        assert index.match(miss) == []
        assert index.match_batch([miss] * 3).num_rows == 0


@pytest.mark.parametrize("count", [3_000, pytest.param(100_000, marks=pytest.mark.soak)])
def test_identical_filters_that_must_be_verified(count: int) -> None:
    index = Index()
    index.add_many(table_of("a LIKE '%x%y%' AND b < c", count))
    assert index.match({"a": "-x-y-", "b": 1, "c": 2}) == list(range(count))
    assert index.match({"a": "-x-y-", "b": 2, "c": 2}) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_is_bounded_however_many_pairs_match(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that match nothing let the units grow; then a run of events matches everything."""
    most = 1 << 17
    monkeypatch.setattr(workspaces, "PAIRS", most)
    monkeypatch.setattr("whimbrel.engine.matching.blocks.PAIRS", most)
    monkeypatch.setattr("whimbrel.engine.matching.units.PAIRS", most)
    index = Index()
    for text in ("a = 1", "a BETWEEN 1 AND 5 AND b != 3", "a >= 1"):
        index.add_many((f"{text} {id}", text) for id in range(2_000))
    index.remove("a = 1 0")
    batch = [{"z": 1}] * 5_000 + [{"a": 1, "b": 1}] * 1_000 + [{"z": 1}] * 300
    total = events = 0
    for offsets, rows in index.match_blocks(batch, threads):
        assert len(rows) <= 4 * most
        assert all(len(workspace.out) <= 4 * most for workspace in index._workspaces._all)
        events += len(offsets) - 1
        total += len(rows)
    assert (events, total) == (len(batch), 5_999 * 1_000)
    for workspace in index._workspaces._all:
        assert len(workspace.out) <= 4 * most


def test_one_event_may_match_more_than_a_call_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspaces, "PAIRS", 100)
    monkeypatch.setattr("whimbrel.engine.matching.blocks.PAIRS", 100)
    monkeypatch.setattr("whimbrel.engine.matching.units.PAIRS", 100)
    index = Index()
    for text in ("a = 1", "a BETWEEN 1 AND 5 AND b != 3", "a >= 1"):
        index.add_many((f"{text} {id}", text) for id in range(40_000))
    event = {"a": 1, "b": 1}
    assert len(index.match(event)) == 120_000
    found = Counter(row for row, _ in block_pairs(index, [event, {}, event, {"a": 1}], threads=2))
    assert found == {0: 120_000, 2: 120_000, 3: 80_000}


@pytest.mark.parametrize("count", MANY)
@pytest.mark.parametrize("kind", ["integers", "floats", "strings", "timestamps", "mixed"])
def test_one_attribute_with_as_many_values_as_filters(kind: str, count: int) -> None:
    literals = {
        "integers": lambda n: str(7 * n - count),
        "floats": lambda n: repr(n / 7 + 0.5),
        "strings": lambda n: f"'value {n}'",
        "timestamps": lambda n: f"TIMESTAMP '{Timestamp(n * 10**12 + 1)}'",
        "mixed": lambda n: (str(n), f"'{n}'", repr(n + 0.5))[n % 3],
    }[kind]
    values = {
        "integers": lambda n: 7 * n - count,
        "floats": lambda n: n / 7 + 0.5,
        "strings": lambda n: f"value {n}",
        "timestamps": lambda n: Timestamp(n * 10**12 + 1),
        "mixed": lambda n: (n, str(n), n + 0.5)[n % 3],
    }[kind]
    index = Index()
    index.add_many((n, f"a = {literals(n)}") for n in range(count))
    chosen = [0, 1, 2, count // 2, count - 1]
    assert [index.match({"a": values(n)}) for n in chosen] == [[n] for n in chosen]
    assert index.match({"a": [values(n) for n in chosen] * 2}) == chosen
    for other in (-1e300, "", True, None, Timestamp(0), "value", 0.123):
        assert index.match({"a": other}) == []
    found = pairs(index.match_batch(pa.table({"a": pa.array([values(n) for n in chosen[:3]])}))) if kind in (
        "integers", "floats", "strings",
    ) else pairs(index.match_batch([{"a": values(n)} for n in chosen[:3]]))  # fmt: skip
    assert found == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize("count", MANY)
def test_one_attribute_with_as_many_bounds_as_filters(count: int) -> None:
    index = Index()
    index.add_many((n, (f"a > {n}", f"a <= {n}", f"a BETWEEN {n} AND {n + 4}")[n % 3]) for n in range(count))
    for value in (-1, 0, 0.5, 1, 17, count / 2, count - 1, count + 10):
        wanted = [n for n in range(count) if (n < value, value <= n, n <= value <= n + 4)[n % 3]]
        assert index.match({"a": value}) == wanted


@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["equalities", "ranges"])
def test_every_filter_has_attributes_of_its_own(kind: str, count: int) -> None:
    index = Index()
    text = "x{0} = {0} AND y{0} = 'y'" if kind == "equalities" else "x{0} > {0} AND y{0} BETWEEN 1 AND 3"
    index.add_many((n, text.format(n)) for n in range(count))
    assert len(index.attributes()) == 2 * count
    hit: dict[str, Any] = {"equalities": "y", "ranges": 2}
    for n in (0, 1, count - 1):
        assert index.match({f"x{n}": n + (kind == "ranges"), f"y{n}": hit[kind]}) == [n]
        assert index.match({f"x{n}": n + 1 / 2, f"y{n}": "z"}) == []
        assert index.match({f"y{n}": hit[kind]}) == []
    assert index.match({}) == index.match({"other": 1}) == []
    event = {f"x{n}": n + (kind == "ranges") for n in range(900)} | {f"y{n}": hit[kind] for n in range(0, 900, 2)}
    assert index.match(event) == list(range(0, 900, 2))
    assert sorted(pairs(index.match_batch(pa.Table.from_pylist([event])))) == [(0, n) for n in range(0, 900, 2)]
    index.remove(4)
    index.merge()
    assert index.match(event) == [n for n in range(0, 900, 2) if n != 4]


CONSTANTS: list[Any] = [
    *NUMBERS,
    *(-(2**63), 2**63 - 1, 2**63, -(2**63) - 1, 2**64 - 1, 2**64, 10**308, -(10**308), 10**309, -(10**999)),
    *(1e308, -1e308, sys.float_info.max, sys.float_info.min, float(2**53), float(2**63), float(2**64), 2**53 + 2),
    *STRINGS,
    *TIMESTAMPS,
    *(
        Timestamp.parse("9999-12-31T23:59:59.999999999Z"),
        Timestamp(2**63 - 1),
        Timestamp(2**63),
        Timestamp(-(2**63) - 1),
    ),
    *(True, False),
]
OPERATORS = ["=", "!=", "<", "<=", ">", ">="]


def _near(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [value]
    if isinstance(value, str):
        return [value, value + "\0", value + "\U0010ffff", value[:-1]]
    if isinstance(value, Timestamp):
        return [value, Timestamp(value.nanoseconds - 1), Timestamp(value.nanoseconds + 1)]
    out = [value]
    if isinstance(value, int) or math.isfinite(value):
        out += [int(value) - 1, int(value) + 1]
        if abs(value) < 1e308:
            out += [math.nextafter(float(value), math.inf), math.nextafter(float(value), -math.inf)]
    return [one for one in out if not isinstance(one, int) or abs(one) < 10**1000]


@pytest.mark.parametrize("kinds", [(bool, int, float, str, Timestamp), (int,), (float, int), (str,), (Timestamp,)])
def test_constants_at_the_ends_of_their_domains(kinds: tuple[type, ...]) -> None:
    """Every comparison with every odd constant, on values next to it: where ranks could collide."""
    constants = [c for c in CONSTANTS if isinstance(c, kinds) and (bool in kinds or not isinstance(c, bool))]
    kept = {
        id: Filter(x.Compare("a", op, c)) for id, (op, c) in enumerate((op, c) for op in OPERATORS for c in constants)
    }
    values = list(dict.fromkeys((type(v), v) for c in CONSTANTS for v in _near(c)))
    batch: list[dict[str, Any]] = [{"a": value} for _, value in values]
    rng = random.Random(1)
    sampled = rng.sample(batch, 60) if len(kinds) == 5 else batch[::3]
    index = Index()
    index.add_many(kept.items())
    check_answers(index, kept, sampled)
    index.merge()
    check_answers(index, kept, sampled[:20])


NUMBER_COLUMNS = {
    "int64": pa.array([-(2**63), -(2**53) - 1, -1, 0, 1, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1], pa.int64()),
    "uint64": pa.array([0, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1], pa.uint64()),
    "float64": pa.array([-math.inf, -1e308, -0.0, 5e-324, 2.0**53, 2.0**53 + 2, 2.0**63, 1e308, math.inf, math.nan]),
}


@pytest.mark.parametrize("name", NUMBER_COLUMNS)
def test_columns_with_the_ends_of_their_types(name: str) -> None:
    column = NUMBER_COLUMNS[name]
    constants = [c for c in CONSTANTS if isinstance(c, int | float)]
    kept = {
        id: Filter(x.Compare("a", op, c)) for id, (op, c) in enumerate((op, c) for op in OPERATORS for c in constants)
    }
    index = Index()
    index.add_many(kept.items())
    wanted = [(row, id) for row, value in enumerate(column.to_pylist()) for id in expected(kept, {"a": value})]
    assert sorted(pairs(index.match_batch(pa.table({"a": column})))) == wanted


def test_an_empty_index_and_empty_batches() -> None:
    index = Index()
    empty = [[], pa.table({"a": pa.array([], pa.int64())}), pa.table({}), iter([])]
    for id in range(2):
        assert index.match({}) == index.match({"a": 1}) == []
        assert index.near_misses({"a": 1}) == []
        assert index.match_batch([{"a": 1}] * 5).num_rows == 0
        for batch in (*empty, pa.table({"a": [1]}).slice(1)):
            table = index.match_batch(batch)
            assert table.num_rows == 0 and table.schema.names == ["event", "subscription"]
        index.merge()
        index.analyze([])
        index.analyze(pa.table({"a": [1, 2]}))
        index.add(id, "a = 5 AND a = 6")
        index._check()
    index.remove(0)
    index.remove(1)
    index.merge()
    assert list(index.match_blocks([])) == [] and len(index) == 0
    assert sum(len(offsets) - 1 for offsets, _ in index.match_blocks([{}] * 100)) == 100


def test_filters_that_match_everything_beside_those_that_match_nothing() -> None:
    texts = ["TRUE", "FALSE", "a IS NULL OR a IS NOT NULL", "a IS MISSING OR a IS NOT MISSING", "a = 1 OR a != 1"]
    texts += ["a < 1 AND a > 1", "a = 1 AND a IS NULL", "NOT TRUE", "a IN (1, NULL)", "a = NULL", "NULL"]
    kept = {id: Filter.parse(text) for id, text in enumerate(texts)}
    index = Index()
    index.add_many(kept.items())
    check_answers(index, kept, [{}, {"a": None}, {"a": 1}, {"a": 2}, {"a": [1, None]}, {"a": []}, {"a": "x", "b": 1}])


def test_an_event_with_as_many_attributes_as_allowed() -> None:
    index = Index()
    index.add_many((n, f"x{n} = {n % 10} AND x{(n * 7) % 10_000} >= 5") for n in range(10_000))
    event = {f"x{n}": n % 10 for n in range(10_000)}
    wanted = [n for n in range(10_000) if (n * 7) % 10_000 % 10 >= 5]
    assert index.match(event) == wanted
    assert sorted(pairs(index.match_batch([event]))) == [(0, n) for n in wanted]
    with pytest.raises(LimitExceeded):
        index.match(event | {"one more": 1})


def test_values_of_every_type_on_one_attribute() -> None:
    literals = ["TRUE", "FALSE", "1", "0", "'1'", "''", "'true'", "TIMESTAMP '1970-01-01T00:00:00.000000001Z'", "1.5"]
    texts = [f"a {op} {literal}" for op in ("=", "!=") for literal in literals]
    texts += [f"a {op} {literal}" for op in ("<", ">=") for literal in literals[2:]]
    texts += [f"a IN ({', '.join(literals)})", f"a NOT IN ({', '.join(literals)})", "a LIKE '1%'", "a = 1 OR a = '1'"]
    kept = {id: Filter.parse(text) for id, text in enumerate(texts * 10)}
    values = [True, False, 1, 0, "1", "", "true", Timestamp(1), Timestamp(0), 1.5, 1.0, -0.0, "x", None, 2**70]
    index = Index()
    index.add_many(kept.items())
    batch: list[dict[str, Any]] = [{"a": value} for value in values]
    check_answers(index, kept, [*batch, {"a": values}, {"a": [True, "1"]}, {"a": [Timestamp(1), 0.5]}])


def test_names_and_texts_of_any_kind() -> None:
    names = [
        "a b",
        'say "hi"',
        "tab\there",
        "ünï",
        "\U0001f600",
        "x" * 3_000,
        "select",
        "a.b.c.d",
        "1",
        "",
        "NULL",
        "\0",
    ]
    kept = {name: Filter(x.And((x.Compare(name, "=", name), x.IsNull(name + "?")))) for name in names}
    index = Index()
    index.add_many(kept.items())
    index.merge()
    check_answers(index, kept, [{name: name} for name in names] + [{name: name for name in names}])
