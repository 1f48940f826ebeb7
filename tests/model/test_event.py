"""Events: how names and sets of values come out of nested objects and lists, what is refused, and the limits."""

from __future__ import annotations

import enum
import math
import pickle
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given

from tests.strategies import events
from whimbrel import Filter, Index
from whimbrel.model.constraint import NULL_KEY
from whimbrel.model.errors import EventError, LimitExceeded, NamesError
from whimbrel.model.event import Event, Occurrence
from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_DEPTH, EVENT_VALUES
from whimbrel.model.values import Timestamp, sort_key


class Key(str, enum.Enum):  # noqa: UP042 - prints as Key.NAME, unlike StrEnum
    NAME = "name"


def attributes(item: dict[Any, Any]) -> dict[str, tuple[Any, ...]]:
    event = Event(item)
    return {name: event.values(name) for name in event.attributes}


def nested(depth: int) -> dict[str, Any]:
    item: dict[str, Any] = {"x": 1}
    for _ in range(depth):
        item = {"x": item}
    return item


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({}, {}),
        ({"a": 1}, {"a": (1,)}),
        ({"a": [1, 2, 1]}, {"a": (1, 2)}),
        ({"a": [1, True, 1.0, "1"]}, {"a": (1, True, "1")}),
        ({"a": (1, [2, (3,)])}, {"a": (1, 2, 3)}),
        ({"a": []}, {}),
        ({"a": {}}, {}),
        ({"a": [{}]}, {}),
        ({"a": None}, {"a": (None,)}),
        ({"a": [None, 1, math.nan]}, {"a": (None, 1)}),
        ({"a": ""}, {"a": ("",)}),
        ({"a": {"b": {"c": 1}}}, {"a.b.c": (1,)}),
        ({"a.b": {"c": 1}, "a": {"b.c": 2}}, {"a.b.c": (1, 2)}),
        ({"a": [{"x": 1}, {"x": 2, "y": 3}, 4]}, {"a.x": (1, 2), "a.y": (3,), "a": (4,)}),
        ({"": 1}, {"": (1,)}),
        ({"": {"x": 1}}, {".x": (1,)}),
        ({"a": {"": 1}}, {"a.": (1,)}),
        ({"": {"": 1}}, {".": (1,)}),
        ({"a.": 1, "a": {"": 2}}, {"a.": (1, 2)}),
        ({"\U0001f600": "\U0010ffff"}, {"\U0001f600": ("\U0010ffff",)}),
        ({"a b'\"": 1}, {"a b'\"": (1,)}),
        ({Key.NAME: 1, "a": {Key.NAME: 2}}, {"name": (1,), "a.name": (2,)}),
        (OrderedDict(b=1, a=2), {"b": (1,), "a": (2,)}),
    ],
)
def test_attributes_are_sets_of_values_under_dotted_names(item: dict[str, Any], expected: dict[str, Any]) -> None:
    found = attributes(item)
    assert found == expected
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert [type(value) for value in found[name]] == [type(value) for value in values]


def test_a_missing_attribute_has_no_values() -> None:
    event = Event({"a": None})
    assert event.values("b") == event.keys("b") == ()
    assert event.occurrences("b") == []
    assert event.keys("a") == (NULL_KEY,)
    assert event.occurrences("a") == []
    assert not event.has_value("a")
    assert not event.has_value("b")
    assert Event({"a": [None, 0]}).has_value("a")


def test_values_remember_the_elements_that_they_lie_in() -> None:
    event = Event({"d": [{"x": 1, "e": [{"y": 2}, {"y": 3}]}, {"x": 1}], "d.x": 1})
    assert event.has_elements
    assert event.occurrences("d.x") == [
        Occurrence(sort_key(1), ((0, 0),)),
        Occurrence(sort_key(1), ((0, 1),)),
        Occurrence(sort_key(1), ()),
    ]
    assert [o.elements for o in event.occurrences("d.e.y")] == [((0, 0), (1, 0)), ((0, 0), (1, 1))]


def test_a_plain_event_has_no_elements() -> None:
    event = Event({"a": [1, None, 1], "d": {"x": 2}})
    assert not event.has_elements
    assert event.occurrences("a") == [Occurrence(sort_key(1), ())]


def test_an_event_is_read_once() -> None:
    event = Event({"at": "1970-01-01"})
    assert Event.of(event) is event
    assert Event.of(event, timestamps=["at"]) is event
    assert Event.of({"at": "1970-01-01"}, timestamps=["at"]).values("at") == (Timestamp(0),)


def test_timestamps_are_read_where_asked_and_nowhere_else() -> None:
    item = {"at": ["1970-01-01", 5, None, Timestamp(1)], "d": [{"at": "1970-01-01T01:00:00+01:00"}], "b": "1970-01-01"}
    event = Event(item, timestamps=("at", "d.at"))
    assert event.values("at") == (Timestamp(0), 5, None, Timestamp(1))
    assert event.values("d.at") == (Timestamp(0),)
    assert event.values("b") == ("1970-01-01",)


def test_text_that_is_no_timestamp_is_refused_where_one_is_asked_for() -> None:
    with pytest.raises(EventError, match=r"Expected a timestamp, but got 'soon' - at d\.at") as caught:
        Event({"d": {"at": "soon"}}, timestamps=["d.at"])
    assert (caught.value.expected, caught.value.found, caught.value.path) == ("a timestamp", "'soon'", "d.at")


@pytest.mark.parametrize("item", [None, [], "x", 1, [{"a": 1}], {1}])
def test_what_is_not_an_object_is_refused(item: Any) -> None:
    with pytest.raises(EventError, match=rf"Expected an object, but got {type(item).__name__} - at \$"):
        Event(item)


def test_a_key_that_is_no_text_is_refused_with_its_place() -> None:
    with pytest.raises(EventError, match=r"Expected a text as key, but got int 1 - at d"):
        Event({"d": {1: 2}})
    with pytest.raises(EventError, match=r"a text as key, but got NoneType None - at \$"):
        Event({None: 2})  # type: ignore[dict-item]


@pytest.mark.parametrize("item", [{"\ud800": 1}, {"\ud800": []}, {"d": {"x\udfff": {}}}])
def test_a_key_with_a_lone_surrogate_is_refused(item: dict[str, Any]) -> None:
    with pytest.raises(EventError, match="a key without lone surrogates"):
        Event(item)


def test_a_text_with_a_lone_surrogate_is_refused_with_its_place() -> None:
    with pytest.raises(EventError, match=r"text without lone surrogates, but got '\\ud800' - at d\.x"):
        Event({"d": [{"x": ["ok", "\ud800"]}]})


def test_a_value_of_another_kind_is_refused_with_its_place() -> None:
    with pytest.raises(EventError, match=r"but got bytes - at d\.x"):
        Event({"d": {"x": [1, b"2"]}})
    with pytest.raises(EventError, match="but got Event - at d"):
        Event({"d": Event({})})


def test_an_event_is_at_most_so_deep() -> None:
    limit = EVENT_DEPTH.value
    assert Event(nested(limit)).attributes == (".".join("x" * (limit + 1)),)
    with pytest.raises(LimitExceeded, match=f"at most {limit} nested objects or lists") as caught:
        Event(nested(limit + 1))
    assert caught.value.where == ".".join("x" * (limit + 1))


def test_lists_count_as_depth_too() -> None:
    item: Any = 1
    for _ in range(EVENT_DEPTH.value):
        item = [item]
    assert Event({"a": item}).values("a") == (1,)
    with pytest.raises(LimitExceeded, match="event depth"):
        Event({"a": [item]})


def test_an_event_that_contains_itself_is_too_deep() -> None:
    item: dict[str, Any] = {}
    item["x"] = [item]
    with pytest.raises(LimitExceeded, match="event depth"):
        Event(item)


def test_an_event_has_at_most_so_many_attributes() -> None:
    limit = EVENT_ATTRIBUTES.value
    assert len(Event({f"a{i}": 1 for i in range(limit)}).attributes) == limit
    with pytest.raises(LimitExceeded, match="at most 10,000 attributes, but got 10,001"):
        Event({f"a{i}": 1 for i in range(limit + 1)})


def test_an_event_has_at_most_so_many_values() -> None:
    limit = EVENT_VALUES.value
    assert len(Event({"a": list(range(limit))}).keys("a")) == limit
    with pytest.raises(LimitExceeded, match="at most 100,000 values of all attributes, but got 100,001") as caught:
        Event({"a": [None] * limit, "b": 1})
    assert caught.value.where == "b"


def test_an_event_shows_its_attributes() -> None:
    assert repr(Event({"a": [1, None], "d": {"x": "y"}})) == "Event({'a': [1, None], 'd.x': ['y']})"


@given(events())
def test_an_event_survives_pickling(item: dict[str, Any]) -> None:
    event = Event(item)
    again = pickle.loads(pickle.dumps(event))
    assert again.attributes == event.attributes
    for name in event.attributes:
        assert again.keys(name) == event.keys(name)
        assert again.occurrences(name) == event.occurrences(name)


@pytest.mark.parametrize("names", ["at", ["a", 1]])
def test_names_of_timestamps_are_a_list_of_texts(names: Any) -> None:
    for call in (lambda: Event({}, names), lambda: Filter.parse("a = 1").matches({}, names), lambda: Index(names)):
        with pytest.raises(NamesError, match="Expected a list of attribute names"):
            call()
