"""What users see: the paper's example, ways to write intervals, bad input, options, filters, columns."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whimbrel.model.errors import LimitExceeded
from whimbrel.model.values import Timestamp
from whimbrel.spaces import (
    Columns,
    EmptyRegion,
    Interval,
    KeyExists,
    KeyKindError,
    Notification,
    RegionError,
    SpaceConflict,
    SpaceOptionError,
    SubjectSpaces,
    UnknownDimension,
    UnknownKey,
    UnknownSpace,
)


def enter(subscription: Any, publication: Any) -> Notification:
    return Notification(subscription, publication, "enter")


def leave(subscription: Any, publication: Any) -> Notification:
    return Notification(subscription, publication, "leave")


def made(*spaces: dict[str, str]) -> SubjectSpaces:
    found = SubjectSpaces()
    for number, dimensions in enumerate(spaces):
        found.define(f"space {number}", dimensions)
    return found


def town() -> SubjectSpaces:
    return made({"x": "number", "y": "number"})


def test_the_example_of_the_paper() -> None:
    spaces = made({"d": "number"})
    interests = {"i1": "[100, inf)", "i2": "(-inf, 100)", "i3": "[60, 100]"}
    for key, interval in interests.items():
        assert spaces.subscribe(key, [{"d": interval}]) == []
    overlaps = {"o1": {"i1", "i3"}, "o2": {"i1", "i2", "i3"}, "o3": {"i1", "i2", "i3"}}
    for key, interval in {"o1": "[100, 100]", "o2": "(60, 120)", "o3": "[60, inf)"}.items():
        found = spaces.publish(key, [{"d": interval}])
        assert {one.subscription for one in found} == overlaps[key]
        assert set(spaces.matches(key)) == overlaps[key]


def test_the_face_of_the_readme() -> None:
    spaces = town()
    assert spaces.subscribe("zone-1", [{"x": "[0, 10)", "y": "[5, inf)"}]) == []
    assert spaces.publish("taxi-7", [{"x": 3, "y": "[6, 7]"}]) == [enter("zone-1", "taxi-7")]
    assert spaces.matches("taxi-7") == ["zone-1"] and spaces.matched_by("zone-1") == ["taxi-7"]
    assert spaces.update_publication("taxi-7", {"x": 20}) == []
    assert spaces.update_publication("taxi-7", {"x": None}) == [enter("zone-1", "taxi-7")]
    assert spaces.publication("taxi-7") == [{"y": Interval(6, 7)}]
    assert spaces.update_subscription("zone-1", [{"y": 8}]) == []
    assert spaces.update_subscription("zone-1", {"y": (7, 9)}) == [enter("zone-1", "taxi-7")]
    assert spaces.delete_publication("taxi-7") == [Notification("zone-1", "taxi-7", "delete")]
    assert spaces.unsubscribe("zone-1") == []
    assert spaces.counts() == {"publications": 0, "subscriptions": 0}
    assert spaces.dimensions("space 0") == {"x": "number", "y": "number"}


@pytest.mark.parametrize(
    ("kind", "item", "shown"),
    [
        ("number", "[0, 10)", "[0, 10)"),
        ("number", "(0.5,inf)", "(0.5, inf)"),
        ("number", (1, None), "[1, inf)"),
        ("number", [-math.inf, 2], "(-inf, 2]"),
        ("number", 3.0, "[3, 3]"),
        ("number", np.float32(0.5), "[0.5, 0.5]"),
        ("number", Decimal("0.1"), "[0.1, 0.1]"),
        ("number", -0.0, "[0, 0]"),
        ("number", "(3, 4)", "(3, 4)"),
        ("number", -2.5, "[-2.5, -2.5]"),
        ("integer", "(3, 5)", "[4, 4]"),
        ("integer", "[2.5, 7.5)", "[3, 7]"),
        ("integer", 2**60, f"[{2**60}, {2**60}]"),
        ("string", "[0, 10)", "['[0, 10)', '[0, 10)']"),
        ("string", ("a", "b"), "['a', 'b']"),
        ("string", Interval("a", None, "(]"), "('a', inf)"),
        ("timestamp", "2026-01-31", "[2026-01-31T00:00:00Z, 2026-01-31T00:00:00Z]"),
        ("timestamp", "[2026-01-31, 2026-02-01]", "[2026-01-31T00:00:00Z, 2026-02-01T00:00:00Z]"),
        ("timestamp", (None, datetime(1970, 1, 2, tzinfo=UTC)), "(-inf, 1970-01-02T00:00:00Z]"),
        ("timestamp", date(1970, 1, 1), "[1970-01-01T00:00:00Z, 1970-01-01T00:00:00Z]"),
        ("timestamp", (None, Timestamp(5)), "(-inf, 1970-01-01T00:00:00.000000005Z]"),
    ],
)  # fmt: skip
def test_ways_to_write_an_interval(kind: str, item: object, shown: str) -> None:
    spaces = made({"d": kind})
    spaces.publish("p", [{"d": item}])
    assert [str(region["d"]) for region in spaces.publication("p")] == [shown]


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        ("number", "[5, 1]"), ("number", "(3, 3)"), ("integer", "(3, 4)"), ("string", ("b", "a")), ("number", (5, 1)),
        ("string", Interval("a", "a", "()")), ("timestamp", "[2026-02-01, 2026-01-31]"), ("number", "[a, b]"),
        ("number", "three"), ("number", True), ("number", math.inf), ("number", math.nan), ("number", None),
        ("number", 2**53 + 1), ("integer", 0.5), ("integer", 2**70), ("integer", "x"), ("string", 5), ("string", None),
        ("timestamp", 5), ("timestamp", "soon"), ("number", (1, 2, 3)), ("number", {"low": 1}), ("string", "\ud800"),
        ("number", 10**400), ("integer", ("a", "b")),
    ],
)  # fmt: skip
def test_a_bad_interval_changes_nothing(kind: str, item: object) -> None:
    spaces = made({"d": kind, "other": "number"})
    spaces.publish("p", [{"other": 1}])
    before = spaces.publication("p"), spaces.sequence
    for call in (
        lambda: spaces.publish("q", [{"d": item}]),
        lambda: spaces.subscribe("s", [{"other": 1}, {"d": item}]),
        lambda: spaces.update_publication("p", [{"d": item}]),
        lambda: spaces.update_many([("p", {"other": 2}), ("p", [{"d": item}])]),
    ):
        with pytest.raises(RegionError) as caught:
            call()
        assert "d" in caught.value.path
    assert (spaces.publication("p"), spaces.sequence) == before
    assert spaces.counts() == {"publications": 1, "subscriptions": 0}
    spaces._check()


def test_other_bad_input_is_a_typed_error_and_changes_nothing() -> None:
    spaces = town()
    spaces.publish("p", [{"x": 1}])
    spaces.publish("two", [{"x": 1}, {"y": 1}])
    spaces.subscribe("s", [{"x": (0, 2)}], leave=True)
    sequence = spaces.sequence
    region = [{"x": 1}]
    for error, call in [
        (UnknownSpace, lambda: spaces.dimensions("nowhere")),
        (SpaceConflict, lambda: spaces.define("space 0", {"a": "number"})),
        (SpaceConflict, lambda: spaces.define("b", {"x": "number"})),
        (SpaceConflict, lambda: spaces.define("b", {"x": "string"})),
        (SpaceConflict, lambda: spaces.define("b", {"z": "float"})),
        (SpaceConflict, lambda: spaces.define("b", {})),
        (SpaceConflict, lambda: spaces.define("", {"z": "number"})),
        (UnknownDimension, lambda: spaces.publish("q", [{"z": 1}])),
        (UnknownDimension, lambda: spaces.subscribe("q", region, hysteresis={"z": 1})),
        (EmptyRegion, lambda: spaces.publish("q", [])),
        (EmptyRegion, lambda: spaces.publish("q", [{}])),
        (EmptyRegion, lambda: spaces.update_publication("p", {"x": None})),
        (EmptyRegion, lambda: spaces.update_many([("p", {"y": 1, "x": None}), ("p", {"y": None})])),
        (RegionError, lambda: spaces.publish("q", {"x": 1})),
        (RegionError, lambda: spaces.publish("q", [5])),
        (RegionError, lambda: spaces.update_publication("two", {"x": 1})),
        (RegionError, lambda: spaces.update_many([("two", {"x": 1})])),
        (KeyExists, lambda: spaces.publish("p", region)),
        (KeyExists, lambda: spaces.subscribe("s", region)),
        (KeyExists, lambda: spaces.publish_many([("a", region), ("a", region)])),
        (UnknownKey, lambda: spaces.update_publication("nobody", {"x": 1})),
        (UnknownKey, lambda: spaces.update_many([("p", {"x": 50}), ("nobody", {"x": 1})])),
        (UnknownKey, lambda: spaces.delete_publication("s")),
        (UnknownKey, lambda: spaces.update_subscription("p", region)),
        (UnknownKey, lambda: spaces.unsubscribe([])),
        (UnknownKey, lambda: spaces.matches("nobody")),
        (UnknownKey, lambda: spaces.matched_by("nobody")),
        (KeyKindError, lambda: spaces.publish(True, region)),
        (KeyKindError, lambda: spaces.publish(1.5, region)),
        (KeyKindError, lambda: spaces.publish(2**63, region)),
        (KeyKindError, lambda: spaces.publish("\ud800", region)),
        (SpaceOptionError, lambda: spaces.subscribe("q", region, filter="most")),
        (SpaceOptionError, lambda: spaces.update_publication("p")),
        (SpaceOptionError, lambda: spaces.update_publication("p", filter="most")),
        (SpaceOptionError, lambda: spaces.update_publication("two", {"x": 1}, region=2)),
        (SpaceOptionError, lambda: spaces.update_publication("two", {"x": 1}, region=-1)),
        (SpaceOptionError, lambda: spaces.update_publication("two", {"x": 1}, region=True)),
        (SpaceOptionError, lambda: spaces.update_publication("two", region, region=0)),
        (EmptyRegion, lambda: spaces.update_publication("two", {"y": None}, region=1)),
        (SpaceOptionError, lambda: spaces.subscribe("q", region, dwell=-1)),
        (SpaceOptionError, lambda: spaces.subscribe("q", region, hysteresis={"x": math.inf})),
        (SpaceOptionError, lambda: SubjectSpaces(filters={"all": lambda *_: True})),
        (RegionError, lambda: spaces.update_many(Columns(["p", "p"], {"x": [1.0, 2.0]}))),
        (RegionError, lambda: spaces.publish_many(Columns(["q"], {"x": [1.0, 2.0]}))),
        (RegionError, lambda: spaces.publish_many(Columns(["q"], {"x": ["1"]}))),
        (RegionError, lambda: spaces.publish_many(Columns(["q"], {"x": [math.inf]}))),
        (RegionError, lambda: spaces.publish_many(Columns(["q"], {"x": [2**53 + 1]}))),
        (RegionError, lambda: spaces.publish_many(Columns(["q"], {"x": ([math.nan], [1.0])}))),
        (EmptyRegion, lambda: spaces.publish_many(Columns(["q"], {"x": [math.nan]}))),
        (EmptyRegion, lambda: spaces.publish_many(Columns(["q"], {"x": ([2.0], [1.0])}))),
    ]:  # fmt: skip
        with pytest.raises(error):
            call()
    assert spaces.sequence == sequence
    assert spaces.publication("p") == [{"x": Interval(1, 1)}]
    assert spaces.counts() == {"publications": 2, "subscriptions": 1}
    spaces._check()


@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**54 - 1])
def test_an_integer_that_binary64_would_round_is_refused_in_batches_and_wide_regions_too(number: int) -> None:
    spaces = made({f"d{at}": "number" for at in range(8)})
    spaces.publish("p", [{"d0": 2**53, "d1": 2.0**60}])
    wide = {f"d{at}": number for at in range(8)}
    for call in (lambda: spaces.update_many([("p", {"d0": number})]), lambda: spaces.publish("q", [wide])):
        with pytest.raises(RegionError, match="binary64"):
            call()
    assert spaces.update_many([("p", {"d0": -(2**53), "d1": 2**60})]) == []


def test_at_most_62_spaces() -> None:
    spaces = made(*({f"d{n}": "number"} for n in range(62)))
    with pytest.raises(LimitExceeded):
        spaces.define("one more", {"z": "number"})
    spaces.subscribe("s", [{"d61": 1}])
    assert spaces.publish("p", [{"d61": 1, "d0": 5}]) == [enter("s", "p")]


def test_a_region_in_several_spaces_matches_through_any() -> None:
    spaces = made({"x": "number", "y": "number"}, {"y": "number", "z": "number"})
    spaces.subscribe("s", [{"x": 1, "y": 5}])
    assert spaces.publish("p", [{"x": 9, "z": 3}]) == [enter("s", "p")]  # the second space does not have x
    assert spaces.update_publication("p", {"x": 1}) == []  # matched already
    assert spaces.publish("q", [{"z": 3}]) == [enter("s", "q")]


def test_removing_an_unmatched_region_begins_a_match() -> None:
    spaces = town()
    spaces.subscribe("s", [{"x": (0, 2)}])
    assert spaces.publish("p", [{"x": 1}, {"x": 9}]) == []
    assert spaces.update_publication("p", [{"x": 1}]) == [enter("s", "p")]
    assert spaces.update_publication("p", [{"x": 1}, {"x": 2}]) == []


def test_other_filters() -> None:
    def two(own: Any, other: Any, pairs: Any) -> bool:
        assert all(0 <= i < len(own) and 0 <= j < len(other) for i, j in pairs)
        return len({j for _, j in pairs}) >= 2

    spaces = SubjectSpaces(filters={"two": two})
    spaces.define("map", {"x": "number"})
    spaces.subscribe("any", [{"x": 1}, {"x": 2}, {"x": 3}], filter="any", leave=True)
    spaces.subscribe("two", [{"x": (0, 10)}], filter="two", leave=True)
    assert spaces.publish("p", [{"x": 1}, {"x": 2}]) == [enter("any", "p"), enter("two", "p")]
    assert spaces.publish("q", [{"x": 2}], filter="any") == [enter("any", "q")]
    assert spaces.update_publication("p", [{"x": 5}, {"x": 2}]) == [leave("any", "p")]
    assert spaces.update_publication("p", [{"x": 2}]) == [leave("two", "p"), enter("any", "p")]
    assert spaces.update_publication("q", {"x": 7}) == [leave("any", "q")]
    assert spaces.update_subscription("any", [{"x": 7}]) == [leave("any", "p"), enter("any", "q")]
    assert spaces.matches("q") == ["any"]
    spaces._check()


SIZES = {"kind": "enumerated", "values": ["S", "M", "[L, XL]"]}
FLOORS = {"kind": "integer", "minimum": -2, "maximum": 9}
SHARE = {"kind": "float", "minimum": 0, "maximum": 1}


def test_listed_and_ranged_dimensions_match_through_journal_and_file(tmp_path: Path) -> None:
    kinds = {"open": "boolean", "size": SIZES, "floor": FLOORS, "share": SHARE}
    with SubjectSpaces.open(tmp_path / "journal") as spaces:
        spaces.define("shop", kinds)
        spaces.subscribe("open", [{"open": True}])
        spaces.subscribe("large", [{"size": "[L, XL]", "floor": "[0, inf)", "share": "[0.5, 1]"}])
        found = spaces.publish("p", [{"open": True, "size": "[L, XL]", "floor": 3, "share": 0.5}])
        assert found == [enter("open", "p"), enter("large", "p")]
        assert spaces.update_publication("p", {"size": "M", "open": False}) == []
        assert spaces.publication("p")[0]["size"] == Interval("M", "M")
        assert spaces.publication("p")[0]["open"] == Interval(False, False)
        spaces.save(tmp_path / "file")
    with SubjectSpaces.open(tmp_path / "journal") as again:
        for each in (again, SubjectSpaces.load(tmp_path / "file")):
            assert each.dimensions("shop") == kinds
            assert each.update_publication("p", {"size": "[L, XL]"}) == [enter("large", "p")]
            each._check()


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ({"open": 1}, "Expected TRUE or FALSE"),
        ({"open": "[FALSE, TRUE]"}, "Expected TRUE or FALSE"),
        ({"size": "XS"}, "Expected 'S', 'M' or"),
        ({"size": ("S", "M")}, "one value, because the domain has no order"),
        ({"floor": 10}, "an integer from -2 to 9"),
        ({"floor": "[-3, 0]"}, "an integer from -2 to 9"),
        ({"floor": 1.5}, "an integer"),
        ({"share": 1.25}, "a number from 0 to 1"),
        ({"share": math.nan}, "Expected"),
    ],
)
def test_values_outside_of_a_domain_are_refused(region: dict[str, Any], message: str) -> None:
    spaces = made({"open": "boolean", "size": SIZES, "floor": FLOORS, "share": SHARE})
    with pytest.raises(RegionError, match=message):
        spaces.publish("p", [region])
    spaces.publish("p", [{"share": 0.5}])


@pytest.mark.parametrize(
    "kind", [{"kind": "enumerated", "values": []}, {"kind": "decimal"}, {"kind": "integer", "minimum": 1.5}, {}, 5]
)
def test_what_is_no_domain_is_refused(kind: Any) -> None:
    with pytest.raises(SpaceConflict, match="'x' has"):
        SubjectSpaces().define("a", {"x": kind})


def test_an_update_may_change_the_filter() -> None:
    spaces = made({"x": "number"})
    spaces.subscribe("s", [{"x": 1}, {"x": 2}], leave=True, now=0)
    spaces.subscribe("slow", [{"x": 1}], leave=True, hysteresis={"x": 1}, dwell=5, now=0)
    assert spaces.publish("p", [{"x": 1}, {"x": 9}], now=0) == []
    assert spaces.update_publication("p", filter="any", now=1) == [enter("slow", "p")]
    assert spaces.update_subscription("s", filter="any", now=2) == [enter("s", "p")]
    assert spaces.update_publication("p", filter="all", now=3) == [leave("s", "p")]
    assert spaces.advance(8) == [leave("slow", "p")]
    assert spaces.update_publication("p", {"x": 2}, region=1, now=9) == [enter("s", "p")]
    assert spaces.publication("p") == [{"x": Interval(1, 1)}, {"x": Interval(2, 2)}]
    spaces._check()


def test_columns() -> None:
    spaces = made({"x": "number", "n": "integer", "at": "timestamp"})
    times = np.array(["2026-01-01", "NaT"], "datetime64[s]")
    spaces.subscribe_many(Columns(["s", "t"], {"x": ([0.0, 5.0], [4.0, 9.0])}), leave=True)
    found = spaces.publish_many(Columns([1, 2], {"x": [1, 6], "n": np.array([3, 4]), "at": times}))
    assert set(found) == {enter("s", 1), enter("t", 2)}
    assert spaces.publication(2) == [{"x": Interval(6, 6), "n": Interval(4, 4)}]
    found = spaces.update_many(Columns([1, 2], {"x": [math.nan, 4.0]}))
    assert set(found) == {enter("s", 2), leave("t", 2)}
    assert spaces.update_many({1: {"x": 5}}) == [leave("s", 1), enter("t", 1)]
    assert spaces.publish_many(Columns([3], {"x": [1.0]}), quiet=True) == []
    assert spaces.matches(3) == ["s"]


def test_notifications_keep_their_names() -> None:
    spaces = town()
    spaces.subscribe("s", [{"x": 1}])
    kept = spaces.publish("first", [{"x": 1}])
    spaces.delete_publication("first")
    for number in range(3_000):
        spaces.publish(number, [{"x": 2}])
        spaces.delete_publication(number)
    assert kept == [enter("s", "first")] and kept[0].sequence == 3
    assert kept[-1:] == [enter("s", "first")] and kept != [] and repr(kept).startswith("[Notification(")
    assert len(spaces._state.publications.names) < 2_500


@pytest.mark.parametrize("now", [math.nan, math.inf, -math.inf, "later", 10**400])
def test_a_time_that_is_not_finite_is_refused(now: Any) -> None:
    spaces = SubjectSpaces()
    spaces.define("line", {"x": "number"})
    spaces.subscribe("s", [{"x": (0, 4)}], dwell=5, leave=True, now=0)
    spaces.publish("p", [{"x": 1}], now=0)
    spaces.update_publication("p", {"x": 9}, now=10)
    for call in (lambda: spaces.advance(now), lambda: spaces.delete_publication("p", now=now)):
        with pytest.raises(SpaceOptionError, match="finite"):
            call()
    assert spaces.sequence == 4
    assert spaces.advance(14) == []
    assert spaces.advance(15) == [leave("s", "p")]
