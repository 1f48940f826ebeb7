"""The content of notifications: the publication as the call left it, whatever happens to it later."""

from __future__ import annotations

import copy
import gc
import pickle
from pathlib import Path

import pytest

from whimbrel.spaces import Interval, Notifications, SubjectSpaces
from whimbrel.spaces.dimensions import strings
from whimbrel.spaces.state import contents


def line(**more: str) -> SubjectSpaces:
    spaces = SubjectSpaces()
    spaces.define("line", {"x": "number", **more})
    return spaces


def at(x: float) -> list[dict[str, Interval]]:
    return [{"x": Interval(x, x)}]


def told(found: Notifications) -> dict[tuple[object, str], object]:
    return {(one.publication, one.kind): one.content for one in found}


def test_every_kind_has_the_content_of_the_paper() -> None:
    spaces = line()
    spaces.publish("p", [{"x": 1}])
    spaces.publish("two", [{"x": 2}, {"x": (3, 4)}])
    entered = spaces.subscribe("s", [{"x": (0, 5)}], leave=True)
    left = spaces.update_publication("p", {"x": 9})
    back = spaces.update_publication("p", [{"x": 5}])
    moved = spaces.update_subscription("s", [{"x": 9}])
    new = spaces.publish("q", [{"x": 9}])
    many = spaces.subscribe_many([("t", [{"x": 9}])])
    deleted = spaces.delete_publication("q")
    spaces.delete_publication("p")
    two = [{"x": Interval(2, 2)}, {"x": Interval(3, 4)}]
    assert told(entered) == {("p", "enter"): at(1), ("two", "enter"): two}
    assert told(left) == {("p", "leave"): at(9)}
    assert told(back) == {("p", "enter"): at(5)}
    assert told(moved) == {("p", "leave"): at(5), ("two", "leave"): two}
    assert told(new) == {("q", "enter"): at(9)} == told(many)
    assert told(deleted) == {("q", "delete"): None}


def test_a_batch_tells_each_step_as_it_was() -> None:
    spaces = line()
    spaces.subscribe("s", [{"x": (0, 5)}], leave=True)
    spaces.publish_many([("p", [{"x": 9}]), ("q", [{"x": 9}])])
    found = spaces.update_many([("p", {"x": 1}), ("q", {"x": 2}), ("p", {"x": 8}), ("p", {"x": 3})])
    assert [(one.publication, one.kind, one.content) for one in found] == [
        ("p", "enter", at(1)),
        ("q", "enter", at(2)),
        ("p", "leave", at(8)),
        ("p", "enter", at(3)),
    ]
    assert [one.content for one in found[::-1][:2]] == [at(3), at(8)]
    assert found[-1].content == at(3) and found[1:][0].content == at(2)


@pytest.mark.parametrize("most", [1, 3, 64])
def test_contents_stay_whatever_comes_later(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MOST_CHANGES", most)
    spaces = line(name="string")
    for number in range(6):
        spaces.publish(number, [{"x": number, "name": f"n{number}"}, *([{"x": 0}] if number == 5 else [])])
    kept = spaces.subscribe("s", [{"x": (0, 10)}])
    expected = {one.publication: spaces.publication(one.publication) for one in kept}
    assert len(expected) == 6
    spaces.update_publication(0, {"x": 50})
    spaces.update_many([(1, {"x": 51, "name": "other"}), (0, {"x": 52})])
    spaces.delete_publication(2)
    spaces.update_publication(5, [{"x": 60}])
    spaces.update_publication(5, [{"x": 61}, {"x": 62}])
    for number in range(100, 1_300):  # numbers are used again
        spaces.publish(number, [{"x": 70}])
        spaces.delete_publication(number)
    assert {one.publication: one.content for one in kept} == expected


def test_strings_keep_their_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strings, "_STRIDE", 4)
    monkeypatch.setattr(strings, "_FEW", 8)
    spaces = line(name="string")
    spaces.publish("p", [{"name": "b", "x": 1}])
    looked = spaces.subscribe("s", [{"x": (0, 9)}])
    given = spaces.publish("q", [{"name": ("b", "c"), "x": 1}])
    for number in range(60):
        spaces.update_publication("p", {"name": "b" + "a" * (number % 17) + "bc"[number % 2]})
        assert spaces.publication("p")[0]["x"] == Interval(1, 1)
    assert spaces._state.definitions.strings[0][1].labels.relabelings > 0
    assert looked[0].content == [{"name": Interval("b", "b"), "x": Interval(1, 1)}]
    assert given[0].content == [{"name": Interval("b", "c"), "x": Interval(1, 1)}]


def test_a_leave_after_dwell_shows_where_the_publication_was_then() -> None:
    spaces = line()
    spaces.subscribe("s", [{"x": (0, 5)}], leave=True, dwell=5, now=0)
    spaces.publish("p", [{"x": 1}], now=0)
    spaces.update_publication("p", {"x": 7}, now=1)
    found = spaces.update_publication("p", {"x": 3}, now=9)
    assert [(one.kind, one.content) for one in found] == [("leave", at(7)), ("enter", at(3))]


def test_pickles_and_copies_take_the_content_along() -> None:
    spaces = line()
    spaces.subscribe("s", [{"x": 1}])
    (one,) = spaces.publish("p", [{"x": 1}])
    for other in (pickle.loads(pickle.dumps(one)), copy.copy(one)):
        assert (other, other.content, other.sequence) == (one, at(1), one.sequence)


def test_nothing_is_kept_for_notifications_that_nobody_holds() -> None:
    spaces = line()
    spaces.publish("p", [{"x": 1}])
    for number in range(5):
        spaces.subscribe(number, [{"x": 1}])
    spaces.update_publication("p", {"x": 2})
    gc.collect()
    assert not len(spaces._state.contents._held)


def test_contents_after_the_journal_is_opened_again(tmp_path: Path) -> None:
    with SubjectSpaces.open(tmp_path) as spaces:
        spaces.define("line", {"x": "number", "name": "string"})
        spaces.publish("p", [{"x": 1, "name": "n"}])
        spaces.subscribe("s", [{"x": (0, 5)}], leave=True)
    for change, kind in (({"x": 9}, "leave"), ({"x": 2, "name": "m"}, "enter")):
        with SubjectSpaces.open(tmp_path) as spaces:
            found = spaces.update_publication("p", change)
        assert [(one.kind, one.content) for one in found] == [(kind, spaces.publication("p"))]  # closed, still right
        with SubjectSpaces.open(tmp_path) as spaces:
            assert [(one.kind, one.content) for one in spaces.last] == [(kind, spaces.publication("p"))]
            last = spaces.last
            spaces.update_publication("p", {"name": "other"})
            assert [one.content for one in last] == [one.content for one in found]
            spaces.update_publication("p", {"name": "n"})
            spaces.compact()
