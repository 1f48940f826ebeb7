"""Subscriptions and their ids: int64 or string, nothing else."""

from __future__ import annotations

import enum
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from whimbrel import Filter
from whimbrel.model.errors import IdKindError
from whimbrel.model.subscription import Subscription, id_kind


class Number(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize("id", [0, -1, 2**63 - 1, -(2**63), Number.ONE])
def test_an_integer_of_64_bits_is_an_id(id: int) -> None:
    assert id_kind(id) == "int64"


@pytest.mark.parametrize("id", ["", "x", "\0", "\U0001f600", "1"])
def test_any_text_is_an_id(id: str) -> None:
    assert id_kind(id) == "string"


@pytest.mark.parametrize("id", [True, False, 2**63, -(2**63) - 1, 1.0, None, b"x", (1,), np.int64(1)])
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
