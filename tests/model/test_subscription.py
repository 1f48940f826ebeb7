"""Subscriptions and their ids: int64 or string, nothing else."""

from __future__ import annotations

import enum
from dataclasses import FrozenInstanceError

import numpy as np
import pyarrow as pa
import pytest

from whimbrel import Filter
from whimbrel.model.errors import IdKindError, MalformedSubscription
from whimbrel.model.subscription import Subscription, check_columns, id_kind, pairs_of


class Number(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize("id", [0, -1, 2**63 - 1, -(2**63), Number.ONE, np.int64(1), np.uint8(1)])
def test_an_integer_of_64_bits_is_an_id(id: int) -> None:
    assert id_kind(id) == "int64"


@pytest.mark.parametrize("id", ["", "x", "\0", "\U0001f600", "1"])
def test_any_text_is_an_id(id: str) -> None:
    assert id_kind(id) == "string"


@pytest.mark.parametrize("id", [True, False, 2**63, -(2**63) - 1, 1.0, None, b"x", (1,), np.uint64(2**63), np.bool_(1)])
def test_anything_else_is_none(id: object) -> None:
    with pytest.raises(IdKindError, match=f"of kind int64 or string, but got {type(id).__name__}") as caught:
        id_kind(id)
    assert caught.value.id is id
    assert caught.value.expected == "int64 or string"


def test_text_with_a_lone_surrogate_is_none() -> None:
    with pytest.raises(IdKindError, match="string, without lone surrogates"):
        id_kind("x\ud800")


def test_a_subscription_is_a_value() -> None:
    filter = Filter.parse("a = 1")
    subscription = Subscription("x", filter)
    assert (subscription.owner, subscription.delivery) == (None, None)
    assert subscription == Subscription("x", Filter.parse("a = 1"))
    with pytest.raises(FrozenInstanceError):
        subscription.id = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("subscriptions", "row", "found"),
    [
        ([(1, "a = 1"), (2, "a = 2", "sql")], 1, "3 items"),
        ([(1, "a = 1"), "ab"], 1, "str 'ab'"),
        ([5], 0, "int 5"),
        ({"ab": "a = 1"}, None, "dict {'ab': 'a = 1'}, whose items() are pairs"),
        ("abc", None, "str 'abc'"),
        (7, None, "int 7"),
    ],
)
def test_what_is_no_pair_of_id_and_filter_is_refused_with_its_row(
    subscriptions: object, row: object, found: str
) -> None:
    with pytest.raises(MalformedSubscription, match="Expected pairs of id and filter") as caught:
        list(pairs_of(subscriptions))  # type: ignore[arg-type]
    assert (caught.value.row, caught.value.found) == (row, found)


@pytest.mark.parametrize(
    ("columns", "row"),
    [({"id": [1, None], "filter": ["a", "b"]}, 1), ({"id": [1, 2], "filter": ["a", None]}, 1), ({"id": [1]}, None)],
)
def test_a_table_without_a_column_or_a_value_is_refused(columns: dict[str, list[object]], row: int | None) -> None:
    with pytest.raises(MalformedSubscription) as caught:
        check_columns(pa.table(columns))
    assert caught.value.row == row
