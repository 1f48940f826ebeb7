"""Dicts that a kernel reads, against `Event`: the same ranks, the same errors, and nothing kept or freed."""

from __future__ import annotations

import gc
import json
import math
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import strategies as ws
from tests.ranks.reference import Constants, constants, entries, make
from whimbrel.compiled import python_objects as objects
from whimbrel.compiled.views import words_of
from whimbrel.model.errors import EventError, LimitExceeded, RowError
from whimbrel.model.event import Event
from whimbrel.ranks.encoding.dict_kernels import read_dict
from whimbrel.ranks.encoding.encoded_events import EncodedEvents
from whimbrel.ranks.encoding.event_encoder import EventEncoder
from whimbrel.ranks.encoding.name_table import NameTable
from whimbrel.ranks.kernel_arrays import (
    END_AT,
    ENTRIES,
    ENTRIES_AT,
    FOR_PYTHON,
    FULL,
    NUMBERS,
    NUMBERS_AT,
    READING,
    make_entries,
)

pytestmark = pytest.mark.skipif(not objects.READABLE, reason="this interpreter's objects are not read by kernels")

ROOM = 64


class Reader:
    """What `SingleEventEncoder.read` of a encoder needs, without a segment."""

    def __init__(self, encoder: EventEncoder) -> None:
        self.encoder = encoder
        self.entries = make_entries(ROOM, 4_096)
        self.words = np.zeros(END_AT, np.int64)
        self.words[NUMBERS_AT:] = [*words_of(NUMBERS, encoder.numbers), *words_of(READING, encoder.reading)]
        self.words[ENTRIES_AT:NUMBERS_AT] = words_of(ENTRIES, self.entries)

    def read(self, event: Any, timestamps: Sequence[str] = ()) -> tuple[EncodedEvents, int]:
        """The entries of one event, and how many of them are from the kernel."""
        left: dict[str, Any] = {}
        encoder, names = self.encoder.single_events, frozenset(timestamps)
        count = encoder.read(event, names, self.words, left)
        if count == FULL:
            return self.encoder.encode_event(event, timestamps), 0
        count, more, other, coupled, _ = encoder.read_rest(event, names, self.words, None, self.entries, count, left)
        attrs = np.array([*self.entries.attrs[:count].tolist(), *more], np.int32)
        cells = np.array([*self.entries.cells[:count].tolist(), *other], np.float64)
        ends = np.array([0, len(attrs)], np.int64)
        return self.encoder._ranked(attrs, cells, ends, np.array([coupled], np.uint8)), count


def read(encoder: EventEncoder, event: Any, timestamps: Sequence[str] = ()) -> tuple[EncodedEvents, int]:
    return Reader(encoder).read(event, timestamps)


def outcome(found: Any) -> object:
    """What comes of reading: ranks and coupling, or the error, as that of the first event of many."""
    try:
        encoded = found()
    except RowError as error:
        return type(error), str(error.at_row(0))
    return entries(encoded), encoded.coupled.tolist()


def agree(encoder: EventEncoder, event: dict[Any, Any], timestamps: Sequence[str] = ()) -> None:
    """Both ways to read an event have one outcome, whatever was read before."""
    expected = outcome(lambda: encoder.encode_event(Event(event, timestamps)))
    assert outcome(lambda: read(encoder, event, timestamps)[0]) == expected
    assert outcome(lambda: encoder.encode_event(event, timestamps)) == expected
    assert outcome(lambda: encoder.encode_events([event], timestamps)) == expected


class Text(str):
    """A subclass that is equal to nothing and prints itself otherwise."""

    __slots__ = ()

    def __str__(self) -> str:
        return "otherwise"


class Whole(int):
    """A subclass of int."""


class Real(float):
    """A subclass of float."""


class Several(list[Any]):
    """A subclass of list."""


class Inner(dict[str, Any]):
    """A subclass of dict."""


scalars = st.one_of(
    ws.scalars,
    st.integers(),
    st.integers(-(2**63) - 2, 2**63 + 1),
    st.floats(),
    st.text(max_size=3),
    st.sampled_from(["\ud800", "a\udfff", "x" * 300, "\xe9" * 200, "\xe9t\xe9", 10**1000, -(10**999), 2**64]),
)
odd = st.sampled_from(
    [
        *(
            Decimal("0.5"),
            np.float32(0.5),
            np.int64(3),
            np.float64(2.5),
            np.str_("a"),
            np.bool_(True),
            date(2026, 1, 31),
        ),
        *(b"x", 1j, Fraction(1, 2), object, Text("a"), Whole(3), Real(0.5), Several([1]), Inner(a=1), (1, 2), {"x": 1}),
        *(np.array([1, 2]), np.array(3), range(3), {1}),
    ]
)
values = st.one_of(scalars, scalars, scalars, odd, st.lists(scalars, max_size=4), st.lists(st.one_of(scalars, odd)))
keys = st.one_of(
    st.sampled_from(["a", "b", "t", "", "stranger", "str\xe4nger", "d.x", "d", "\ud800", ".", "a."]),
    st.sampled_from([Text("a"), np.str_("b"), 1, None, ("a",)]),
)
names = st.sampled_from(["a", "b", "t", "stranger", "d.x"])


@given(
    st.one_of(st.dictionaries(names, scalars, max_size=5), st.dictionaries(keys, values, max_size=5)),
    constants,
    st.sampled_from([(), ("t",), ["a", "stranger"]]),
)
@example({"\ud800": 1}, {}, ())
@example({"a": "\ud800"}, {"strings": ["a"]}, ())
@example({"stranger": "\xe9\ud800", "str\xe4nger": "\xe9"}, {}, ())
def test_any_dict_is_read_as_an_event_is(event: dict[Any, Any], own: Constants, timestamps: Sequence[str]) -> None:
    agree(make({"a": own, "b": own, "t": own, "d.x": own, "": own}, ["a", ""]), event, timestamps)


@given(st.lists(ws.events(), max_size=4), st.data())
def test_objects_of_any_shape_are_read_as_events_are(found: list[dict[str, Any]], data: st.DataObject) -> None:
    encoder = make({name: data.draw(constants) for name in ("a", "b", "d.x", "d.e.x")}, ["b"])
    for event in found:
        agree(encoder, event)


nested_keys = st.sampled_from(["a", "b", "x", "a.b", "b.x", "a.b.x", "t", "a.t", "", ".", "a.", "str\xe4nger"])
nested_values = st.recursive(
    st.one_of(scalars, st.sampled_from(["2026-01-31", "2026-01-31T12:00+01:00"]), odd),
    lambda inner: st.one_of(
        st.dictionaries(nested_keys, inner, max_size=3),
        st.dictionaries(st.one_of(nested_keys, keys), inner, max_size=2),
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
    ),
    max_leaves=8,
)
plain_values = st.recursive(
    st.one_of(ws.scalars, st.integers(-(2**63), 2**63 - 1), st.sampled_from(["ab", "2026-01-31", "2026-02-01T00:00Z"])),
    lambda inner: st.one_of(st.dictionaries(nested_keys, inner, max_size=3), st.lists(inner, max_size=3)),
    max_leaves=12,
)


@given(
    st.one_of(
        st.dictionaries(nested_keys, plain_values, max_size=4), st.dictionaries(nested_keys, nested_values, max_size=4)
    ),
    constants,
    st.sampled_from([(), ("t", "a.t"), ["a.b", "stranger.t"]]),
)
@example({"a": {"b": 1}, "a.b": 2, "b": 3}, {"numbers": [1, 2]}, ())
@example({"a": [{"b": 1, "t": "x"}, {"b": 2}, [{"b": 3}], 5], "t": "2026-01-31"}, {"numbers": [1, 2]}, ("t",))
@example({"a": {"b": [{"x": "\ud800"}]}}, {}, ())
@example({"stranger": {"t": "no timestamp"}}, {}, ["stranger.t"])
@example({"b": {"": {"": 1}}, "": {"": 2}}, {"numbers": [1]}, ())
def test_nested_dicts_are_read_as_events_are(event: dict[str, Any], own: Constants, timestamps: Sequence[str]) -> None:
    names = ["a", "a.b", "a.b.x", "b.x", "x", "t", "a.t", "", ".", "a."]
    agree(make(dict.fromkeys(names, own), ["a.b", "x"]), event, timestamps)


def test_what_no_filter_mentions_is_read_by_the_kernel_too() -> None:
    encoder = make({"a": {"numbers": [1]}, "data.items.sku": {"strings": ["x"]}})
    event: dict[str, Any] = {
        "a": 1,
        "data": {"items": [{"sku": "x", "n": (1, [2])}, {"sku": "y"}], "to": {"\xe9": "\u20ac"}},
    }
    encoded, count = read(encoder, event)
    assert count == 3 and encoded.coupled.tolist() == [1]
    encoded, count = read(encoder, {"a": 1, "data": {"items": [{"n": 1}, {"sku": None}]}, "b": [[{}], [[]]]})
    assert count == 2 and encoded.coupled.tolist() == [0]
    assert encoder.encode_events([event, {"a": 1}]).arrays == ["data.items"]


def test_cycles_and_depths_are_refused_as_ever() -> None:
    encoder = make({"a": {"numbers": [1]}, "a.b": {}})
    cycle: list[Any] = [1]
    cycle += [cycle, cycle]
    circle: dict[str, Any] = {"b": 1}
    circle["b"] = circle
    for value in (cycle, circle):
        agree(encoder, {"a": value})
        agree(encoder, {"stranger": value})
    for depth in range(55, 70):
        for wrap in (lambda inner: [inner], lambda inner: {"b": inner}, lambda inner: [{"b": inner}]):
            value = 1
            for _ in range(depth):
                value = wrap(value)
            agree(encoder, {"a": value})


def test_names_that_are_too_long_for_the_table_are_found_all_the_same() -> None:
    for name in ("a" + ".b" * 40, "a." + "b" * 2_000):
        encoder = make({name: {"numbers": [1]}, "a.c": {"numbers": [1]}})
        inner: Any = 1
        for key in reversed(name.split(".")[1:]):
            inner = {key: inner}
        for event in ({"a": inner}, {name: 1}, {"a": {"c": 1}}, {"a": [{name[2:]: 1}]}):
            agree(encoder, event)


@given(
    st.lists(st.one_of(st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1)), max_size=80),
    st.lists(st.one_of(st.floats(), st.integers(-(2**63), 2**63 - 1)), max_size=20),
)
def test_any_number_finds_its_rank(own: list[float], others: list[float]) -> None:
    encoder = make({"a": {"numbers": own}})
    near = [int(n) + by for n in own if abs(n) < 2**62 for by in (-1, 0, 1)]
    agree(encoder, {"a": (own + others + near)[:ROOM]})


@pytest.mark.parametrize("last", [2**53, 2**62, 2**63 - 1024], ids=["2**53", "2**62", "2**63"])
@pytest.mark.parametrize("fraction", [[], [0.5]], ids=["integers", "floats"])
def test_integers_that_are_no_floats_lie_between_floats(last: int, fraction: list[float]) -> None:
    constants = [float(last), math.nextafter(float(last), 0), math.nextafter(float(last), math.inf), *fraction]
    constants += [-n for n in constants]
    whole = [int(n) for n in constants if n.is_integer()]
    encoder = make({"a": {"numbers": constants}})
    for value in [n + by for n in whole for by in (-1025, -1024, -513, -2, -1, 0, 1, 2, 511, 512, 1024)]:
        below, is_there = sum(n < value for n in constants), value in constants
        assert entries(read(encoder, {"a": value})[0]) == [{0: {6 + 2 * below + is_there}}], value


def test_what_is_plain_is_all_read_by_the_kernel() -> None:
    own = {"numbers": [1, 5], "strings": ["x", "\xe9"]}
    encoder = make({"a": own, "b": own, "n\xe4me": {}}, ["b"])
    plain: dict[str, Any] = {
        "a": ["x", 1, 0.5, None, True, False, "y", "\xe9", 2**53],
        "b": "\u20ac",
        "n\xe4me": "x" * 999,
    }
    plain |= {"stranger": "\xe9" * 999, "other": [2**60, "z", math.nan], "none": None}
    encoded, count = read(encoder, plain)
    assert count == len(encoded.attrs) == 11
    fresh = json.loads(json.dumps(plain))  # texts that are no one's constants
    assert entries(read(encoder, fresh)[0]) == entries(encoded) == entries(encoder.encode_event(Event(plain)))


def test_only_what_is_odd_is_left_to_python() -> None:
    encoder = make({"a": {"numbers": [1]}, "b": {"numbers": [1]}, "c": {"numbers": [10**30, 0.5]}, "t": {}})
    event = {"a": 1, "b": [2, Decimal(1)], "c": 5, "t": "2026-01-31", "\xe9": 1, "s": "x"}
    encoded, count = read(encoder, event, ["t"])
    assert count == 2
    assert entries(encoded) == entries(encoder.encode_event(Event(event, ["t"])))


def test_more_than_there_is_room_for_is_read_by_python() -> None:
    encoder = make({"a": {"numbers": [1]}, "b": {}})
    for size in (ROOM - 1, ROOM, ROOM + 1, 3 * ROOM):
        event = {"b": 1, "a": [1] * (size - 1)}
        encoded, count = read(encoder, event)
        assert entries(encoded) == [{1: {6}, 0: {7}}] and count == (size if size <= ROOM else 0)
    many = {f"n{i}": i for i in range(2_000)}
    assert entries(read(encoder, {**many, "a": 1})[0]) == [{0: {7}}]


@pytest.mark.parametrize("event", [{"x": [1] * 100_001}, {f"n{i}": i for i in range(10_001)}, {"x": [[1] * 100_001]}])
def test_too_much_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(LimitExceeded):
        read(make({"a": {}}), event)


EVENTS: list[dict[Any, Any]] = [
    {"a": "known", "b": 2.5, "c": [1, "x", None, True, 7**22], "stranger": "\u20ac"},
    {"a": "\xe9t\xe9", "b": Decimal(1), "c": [Decimal(1), "\u20ac"], "n\xe4me": object},
    {"a": "a\ud800", "b": 1},
    {"a": 10**30, "b": 10**1001},
    {"a": 1, 2: 3},
    {"a": {"x": 1}, "b": [{"x": "\u20ac"}]},
    {"\ud800": 1},
    {"c": [n + 0.5 for n in range(200)]},
]


@pytest.mark.parametrize("event", EVENTS)
def test_reading_keeps_no_reference_and_frees_none(event: dict[Any, Any]) -> None:
    reader = Reader(make({name: {"strings": ["known"], "numbers": [1, 0.5]} for name in "abc"}))
    held = [part for key, value in event.items() for part in (key, value, *(value if type(value) is list else ()))]

    def times(count: int) -> None:
        for _ in range(count):
            with suppress(EventError, LimitExceeded):
                reader.read(event)

    times(50)
    gc.collect()  # what other tests have left has references too
    counts, blocks = [sys.getrefcount(part) for part in held], sys.getallocatedblocks()
    times(1_000)
    gc.collect()
    # Other threads hold None and small numbers for a moment, so a few more or fewer are no leak; one in two reads is.
    assert all(abs(sys.getrefcount(part) - before) < 500 for part, before in zip(held, counts, strict=True))
    assert sys.getallocatedblocks() - blocks < 500  # a block in two calls would be a leak


def test_an_event_may_vanish_while_an_error_is_made() -> None:
    """A collection of garbage, which an error may bring about, runs code that changes what is being read."""
    reader = Reader(make({"a": {"strings": ["known"]}}))
    table = NameTable({"a": 0}, 1, {})
    found = set()

    class Clearing:
        def __init__(self, event: dict[str, Any]) -> None:
            self.event, self.itself = event, self

        def __del__(self) -> None:
            self.event.clear()

    usual = gc.get_threshold()
    gc.collect()
    gc.freeze()  # what there is, so that collections are short
    for threshold in range(1, 40):
        event = {f"n{i}": "".join(["text ", str(i)]) for i in range(9)}
        event |= {"a": "".join(["k", "\ud800"]), "b": "".join(["b", "\ud800"])}
        left: dict[str, Any] = {}
        Clearing(event)
        gc.set_threshold(threshold)
        try:
            count = read_dict(reader.words, id(event), table.rows, id(left))
            found.add((count, len(event)))
        finally:
            gc.set_threshold(*usual)
        gc.collect()
    gc.unfreeze()
    assert (FOR_PYTHON, 0) in found, "no collection while the error was made"
    assert found <= {(FOR_PYTHON, 0), (FOR_PYTHON, 11), (0, 0)}


def test_an_event_that_another_thread_changes_is_read_at_one_moment() -> None:
    reader = Reader(make({"a": {"numbers": [1]}, "b": {"numbers": [1]}}))
    event: dict[str, Any] = {"a": 0, "b": 0}
    stop = threading.Event()

    def change() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            event.update({"a": n % 2, "b": n % 2, **{f"n{n % 7}{i}": str(n) for i in range(n % 40)}})
            for name in [name for name in event if name[0] == "n"]:
                del event[name]

    writer = threading.Thread(target=change)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    writer.start()
    try:
        for _ in range(2_000):
            found = entries(reader.read(event)[0])[0]
            assert found in ({0: {6}, 1: {6}}, {0: {7}, 1: {7}})
    finally:
        stop.set()
        writer.join()
        sys.setswitchinterval(interval)
