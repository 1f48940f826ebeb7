"""Dicts as events of an index, read by the kernel or by Python: the same answers and the same errors."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from whimbrel import Filter, Index
from whimbrel.compiled import python_objects as objects
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.event import Event
from whimbrel.ranks.encoding import object_batches as batches
from whimbrel.ranks.encoding import single_events as singles

pytestmark = pytest.mark.skipif(not objects.READABLE, reason="this interpreter's objects are not read by kernels")


@pytest.fixture(params=[True, False], ids=["kernel", "python"])
def readable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether dicts are read by the kernel."""
    monkeypatch.setattr(singles, "READABLE", request.param)
    monkeypatch.setattr(batches, "READABLE", request.param)
    return bool(request.param)


FILTERS = ["a = 1", "a > 0.5 AND s = 'x'", "s > 'm'", "t CONTAINS 'x'", "a IS NULL", "a != 5", "s LIKE '%rr%'", "a < b"]
FILTERS += ["a IN (1, 9007199254740993, 10000000000000000000000)", "b = TRUE", "s IN ('\xe9', '\U0001f600')"]
MATCHED: list[dict[str, Any]] = [
    {"a": 1, "s": "x", "t": ["x", "y"], "b": True},
    {"a": 2**53 + 1, "s": "err\xe9", "stranger": "\U0001f600"},
    {"a": [10**22, 5], "b": 7, "s": "\xe9", "t": "x" * 1000},
    {"a": math.nan, "s": ["n", "arr"], "t": [Decimal(3), "x"]},
    {"a": None, "s": {"inner": 1}, "b": 1.5},
    {"a": np.int64(1), "b": 3, "s": "\U0001f600"},
    {},
]


def test_an_index_answers_as_its_filters_do(readable: bool) -> None:
    index = Index()
    index.add_many(enumerate(FILTERS))
    expected = [[n for n, text in enumerate(FILTERS) if Filter.parse(text).matches(event)] for event in MATCHED]
    for event, found in zip([*MATCHED, *MATCHED], [*expected, *expected], strict=True):
        assert index.match(event) == found
    table = index.match_batch(MATCHED * 100)
    pairs = sorted(zip(table["event"].to_pylist(), table["subscription"].to_pylist(), strict=True))
    assert pairs == [(row, n) for row, found in enumerate(expected * 100) for n in found]


def test_an_event_of_many_values_has_all_of_them(readable: bool) -> None:
    index = Index()
    index.add_many((n, f"t CONTAINS {n}") for n in range(3_000))
    for size in (10, 300, 3_000, 20):
        assert index.match({"t": list(range(size)), "b": Decimal(1)}) == list(range(size))
    index.add_many((n, f"t < {n}") for n in range(3_000, 200_000))
    assert len(index.match({"t": [0] * 300, "b": Decimal(1)})) == 197_001


@pytest.mark.parametrize("event", [{1: 2}, {"a": "\ud800"}, {"\ud800": 1}, {"a": b"x"}, {"a": 10**1001}, [1], 7])
def test_what_is_wrong_is_told_as_ever(readable: bool, event: Any) -> None:
    index = Index()
    index.add_many([(1, "a = 1"), (2, "b = 'x'")])
    with pytest.raises(WhimbrelError) as expected:
        Event(event)
    with pytest.raises(WhimbrelError) as found:
        index.match(event)
    assert (type(found.value), str(found.value)) == (type(expected.value), str(expected.value))


@pytest.mark.parametrize("number", [2**53 - 1, 2**53, 2**53 + 1, -(2**53), -(2**53) - 1])
def test_numbers_where_floats_become_sparse(number: int) -> None:
    texts = [f"a <= {number}", f"a = {number}", f"a >= {number}"]
    index = Index()
    index.add_many(enumerate(texts))
    for event in ({"a": number + step} for step in (-2, -1, 0, 1, 2)):
        expected = [row for row, text in enumerate(texts) if Filter.parse(text).matches(event)]
        assert index.match(event) == index.match(json.dumps(event)) == expected
