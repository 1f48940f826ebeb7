"""Hysteresis and dwell of subscriptions in spaces: when a leave is told."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from tests.spaces.test_subject_spaces import FLOORS, SHARE, SIZES, enter, leave, made, town
from whimbrel.model.values import Timestamp
from whimbrel.spaces import (
    Columns,
    Notification,
    RegionError,
    SpaceOptionError,
)


def test_hysteresis_and_dwell() -> None:
    spaces = town()
    spaces.subscribe("margin", [{"x": (0, 10)}], hysteresis={"x": 2}, leave=True, now=0)
    spaces.subscribe("patient", [{"x": (0, 10)}], dwell=timedelta(seconds=5), leave=True, now=0)
    spaces.subscribe("both", [{"x": (0, 10)}], hysteresis={"x": 2}, dwell=5, now=0)
    assert set(spaces.publish("p", [{"x": 1}], now=1)) == {enter(s, "p") for s in ("margin", "patient", "both")}
    assert spaces.update_publication("p", {"x": 11}, now=2) == []
    assert spaces.matches("p") == ["margin", "patient", "both"] and spaces.matched_by("both") == ["p"]
    assert spaces.update_publication("p", {"x": 9}, now=6) == []  # back in time
    assert spaces.update_publication("p", {"x": 13}, now=7) == [leave("margin", "p")]
    assert spaces.advance(11.9) == []
    assert spaces.update_publication("p", {"x": 12}, now=11.95) == []  # within the margin of "both"
    assert spaces.advance(12) == [leave("patient", "p")]
    assert spaces.matches("p") == ["both"]
    assert set(spaces.update_publication("p", {"x": 5}, now=13)) == {enter("margin", "p"), enter("patient", "p")}
    assert spaces.update_subscription("margin", [{"x": (20, 30)}], now=14) == [leave("margin", "p")]
    assert spaces.update_subscription("margin", [{"x": (3, 4)}], now=14) == []
    assert spaces.update_subscription("margin", [{"x": (4, 5)}], now=14) == [enter("margin", "p")]
    assert spaces.unsubscribe("patient", now=15) == []
    assert set(spaces.delete_publication("p", now=16)) == {Notification(s, "p", "delete") for s in ("margin", "both")}
    spaces._check()


def test_hysteresis_widens_ends_as_they_were_written() -> None:
    spaces = town()
    spaces.subscribe("closed", [{"x": (-1, 0)}], hysteresis={"x": 2}, leave=True)
    spaces.subscribe("open", [{"x": "[-1, 1)"}], hysteresis={"x": 2}, leave=True)
    spaces.publish("p", [{"x": 0}])
    assert spaces.update_publication("p", {"x": 2}) == []
    assert spaces.update_publication("p", {"x": 2.999}) == [leave("closed", "p")]
    assert spaces.update_publication("p", {"x": 3}) == [leave("open", "p")]


def test_a_leave_that_is_due_twice_comes_once() -> None:
    spaces = town()
    spaces.subscribe("s", [{"x": 1}], dwell=5, leave=True, now=0)
    spaces.publish("p", [{"x": 1}], now=0)
    for x in (2, 1, 2):
        spaces.update_publication("p", {"x": x}, now=1)
    assert spaces.advance(9) == [leave("s", "p")]


def test_a_leave_that_is_due_comes_before_the_call() -> None:
    spaces = town()
    spaces.subscribe("s", [{"x": 1}], dwell=5, leave=True, now=0)
    spaces.publish("p", [{"x": 1}], now=0)
    spaces.update_publication("p", {"x": 2}, now=1)
    assert list(spaces.update_publication("p", {"x": 1}, now=9)) == [leave("s", "p"), enter("s", "p")]


def test_hysteresis_of_integers_and_instants() -> None:
    spaces = made({"n": "integer", "at": "timestamp"})
    spaces.subscribe("n", [{"n": (0, 5)}], hysteresis={"n": 1}, leave=True)
    spaces.subscribe("at", [{"at": (None, Timestamp(0))}], hysteresis={"at": timedelta(seconds=1)}, leave=True)
    spaces.publish("p", [{"n": 5, "at": Timestamp(0)}])
    assert spaces.update_publication("p", {"n": 6, "at": Timestamp(10**9)}) == []
    assert set(spaces.update_publication("p", {"n": 7, "at": Timestamp(10**9 + 1)})) == {
        leave("n", "p"),
        leave("at", "p"),
    }
    with pytest.raises(SpaceOptionError):
        made({"t": "string"}).subscribe("t", [{"t": "x"}], hysteresis={"t": 1})


@pytest.mark.parametrize("margin", [1e15, 1e292, 1e300, math.nextafter(math.inf, 0)])
@pytest.mark.parametrize(
    ("kind", "low", "far", "distance"),
    [("number", 1, 1e308, 1e308), ("integer", 1, 1 << 61, 2**61), ("timestamp", Timestamp(1), Timestamp(1 << 61), 3e9)],
)
def test_a_huge_margin_reaches_to_the_end_of_the_domain(
    kind: str, low: object, far: object, distance: float, margin: float
) -> None:
    spaces = made({"x": kind})
    spaces.subscribe("s", [{"x": (low, low)}], hysteresis={"x": margin}, leave=True)
    spaces.publish("p", [{"x": low}])
    assert spaces.update_publication("p", {"x": far}) == ([] if margin >= distance else [leave("s", "p")])


@pytest.mark.parametrize("margin", [-1, math.inf, math.nan, 10**400, True])
def test_a_margin_is_a_number_that_a_float_holds(margin: float) -> None:
    with pytest.raises(SpaceOptionError, match="Expected a number from 0 on"):
        made({"x": "integer"}).subscribe("s", [{"x": 1}], hysteresis={"x": margin})


def test_columns_of_a_range_and_hysteresis_beyond_it() -> None:
    spaces = made({"floor": FLOORS, "share": SHARE, "size": SIZES})
    spaces.subscribe("s", [{"share": (0, 0.5)}], leave=True, hysteresis={"share": 0.75}, now=0)
    told = spaces.publish_many(Columns(["a", "b"], {"share": [0.5, math.nan], "floor": np.array([0, 9])}), now=0)
    assert told == [enter("s", "a"), enter("s", "b")]
    assert spaces.update_publication("a", {"share": 1}, now=0) == []
    for column in ({"share": [1.5]}, {"floor": np.array([10])}):
        with pytest.raises(RegionError, match="from"):
            spaces.publish_many(Columns(["c"], column))
    with pytest.raises(SpaceOptionError, match="a dimension with distances"):
        spaces.subscribe("t", [{"size": "S"}], hysteresis={"size": 1})


@pytest.mark.parametrize("options", [{"hysteresis": {"x": 2}}, {"dwell": 5}], ids=["hysteresis", "dwell"])
@pytest.mark.parametrize("regions", [[{"x": 1}], [{"x": 1}, {"y": 1}]], ids=["one region", "two regions"])
def test_publications_that_are_added_quietly_are_inside(options: dict[str, Any], regions: list[dict[str, int]]) -> None:
    spaces = town()
    spaces.subscribe("s", [{"x": (0, 4)}], leave=True, now=0, **options)
    assert spaces.publish_many([("p", regions), ("q", [{"x": 9}])], quiet=True, now=0) == []
    assert spaces.matches("p") == ["s"] and spaces.matches("q") == []
    spaces.update_publication("p", [{"x": 9}], now=1)
    assert [*spaces.last, *spaces.advance(6)] == [leave("s", "p")]
    spaces._check()
