"""Labels of strings: they stay in order, last long, are forgotten, and never come out as others."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from whimbrel.spaces import Interval, Notification, SubjectSpaces
from whimbrel.spaces.dimensions import strings
from whimbrel.spaces.dimensions.strings import Labels


def named() -> tuple[SubjectSpaces, Labels]:
    """Spaces with a dimension of strings, and its labels."""
    spaces = SubjectSpaces()
    spaces.define("names", {"name": "string", "x": "number"})
    ((_, domain),) = spaces._state.definitions.strings
    return spaces, domain.labels


def test_labels_are_spread_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, "_STRIDE", 4)
    monkeypatch.setattr(strings, "_FEW", 8)
    spaces, labels = named()
    spaces.subscribe("s", [{"name": ("b", "c"), "x": (0, 9)}])
    for number in range(120):
        name = "b" + "a" * (number % 17) + "bc"[number % 2]
        assert spaces.publish(number, [{"name": name, "x": 1}]) == [Notification("s", number, "enter")]
        if number >= 5:
            assert spaces.delete_publication(number - 5) == [Notification("s", number - 5, "delete")]
        spaces._check()
    assert labels.relabelings > 3 and len(labels.dump()) < 60


@pytest.mark.parametrize("role", ["publication", "subscription"])
def test_a_change_of_one_region_that_spreads_the_labels_leaves_the_others_as_they_are(
    role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strings, "_STRIDE", 4)
    spaces, labels = named()
    getattr(spaces, {"publication": "publish", "subscription": "subscribe"}[role])("k", [{"name": "z"}, {"name": "a"}])
    for number in range(20):
        name = "m" * number + "n"
        getattr(spaces, f"update_{role}")("k", {"name": name}, region=0)
        assert getattr(spaces, role)("k") == [{"name": Interval(name, name)}, {"name": Interval("a", "a")}]
        spaces._check()
    assert labels.relabelings > 0


def test_no_interval_is_empty_because_the_label_of_one_bound_spreads_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strings, "_STRIDE", 4)
    spaces, labels = named()
    spaces.subscribe_many([(number, [{"name": f"b{number}"}]) for number in range(10, 60)])
    for number in range(9):
        bounds = "b50", "b55" + "x" * number
        spaces.subscribe(number, [{"name": bounds}])
        assert spaces.subscription(number) == [{"name": Interval(*bounds)}]
        spaces._check()
    assert labels.relabelings > 0


ORDERS: dict[str, Callable[[int], str]] = {
    "up": lambda number: f"m{number:05}",
    "down": lambda number: f"m{99_999 - number:05}",
    "two up in turn": lambda number: f"{'km'[number % 2]}{number:05}",
    "one up, one down": lambda number: f"k{number:05}" if number % 2 else f"m{99_999 - number:05}",
}


@pytest.mark.parametrize("order", ORDERS)
def test_strings_that_come_in_order_do_not_spread_the_labels_again_and_again(order: str) -> None:
    spaces, labels = named()
    spaces.publish_many([("first", [{"name": ""}]), ("last", [{"name": "zz"}])])
    spaces.publish_many([(number, [{"name": ORDERS[order](number)}]) for number in range(5_000)])
    assert labels.relabelings <= 2
    labels._check()
