"""Single events and lists of them through the encoder, against `Event` and the definition of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies as ws
from tests.ranks.reference import Constants, Ranks, constants, entries, make, same
from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.model.event import Event
from whimbrel.ranks.cells import DROPPED, boxed


@given(st.lists(ws.events(), max_size=4), st.data())
def test_objects_and_events_have_the_same_ranks(objects: list[dict[str, Any]], data: st.DataObject) -> None:
    named = {name: data.draw(constants) for name in ("a", "b", "d.x", "d.e.x")}
    encoder = make(named, ["b"])
    events = [Event(event) for event in objects]
    encoded = encoder.encode_events(events)
    assert same(encoder.encode_events(objects), encoded)
    for event, coupled, found in zip(objects, encoded.coupled, entries(encoded), strict=True):
        single = encoder.encode_event(event)
        assert entries(single) == [found] and single.coupled.tolist() == [coupled]
        for attr, (name, own) in enumerate(named.items()):
            keys = Event(event).keys(name)
            assert found.get(attr, set()) == {Ranks(own, name == "b").of(key) for key in keys}


scalars = st.one_of(ws.scalars, st.integers(), st.floats(), st.text(max_size=3), st.just("\ud800"), st.just(10**1000))
odd_scalars = st.sampled_from(
    [Decimal("0.5"), np.float32(0.5), np.int64(3), np.str_("a"), date(2026, 1, 31), datetime(2026, 1, 31, 12), b"x", 1j]
)


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "stranger", "\ud800", "t"]), st.one_of(scalars, odd_scalars), max_size=4
    ),
    constants,
    st.sampled_from([(), ("t",), ["a", "t"]]),
)
def test_flat_objects_are_checked_as_events_are(
    event: dict[str, Any], own: Constants, timestamps: Sequence[str]
) -> None:
    encoder = make({"a": own, "b": own, "t": own}, ["a"])
    results: list[object] = []
    for encode in (
        lambda: encoder.encode_event(Event(event, timestamps)),
        lambda: encoder.encode_event(event, timestamps),
    ):
        try:
            results.append(entries(encode()))
        except (EventError, LimitExceeded) as error:
            results.append(str(error))
    assert results[0] == results[1]


def test_a_key_that_is_no_text_is_refused() -> None:
    with pytest.raises(EventError, match="a text as key"):
        make({"a": {}}).encode_event({1: 2})  # type: ignore[dict-item]
    with pytest.raises(EventError, match="an object"):
        make({"a": {}}).encode_event([1])  # type: ignore[arg-type]
    with pytest.raises(EventError, match="event 1: "):
        make({"a": {}}).encode_events([{}, {1: 2}])  # type: ignore[dict-item]


def test_too_many_values_are_refused_in_every_lane() -> None:
    encoder = make({"a": {}})
    with pytest.raises(LimitExceeded):
        encoder.encode_event({"a": [1] * 100_001})
    with pytest.raises(LimitExceeded):
        encoder.encode_event({f"n{i}": i for i in range(10_001)})
    with pytest.raises(LimitExceeded):
        encoder.encode_table(pa.table({"a": [[1], [1] * 100_001]}))


def test_coupled_are_only_events_with_a_known_attribute_in_an_array_of_objects() -> None:
    encoder = make({"d.x": {}, "a": {}})
    events = [
        {"d": [{"x": 1}]},
        {"d": [{"z": 1}], "a": 1},
        {"d": {"x": [1, 2]}},
        {"d": [{"x": None}]},
        {"a": [{"b": 2}]},
    ]
    assert encoder.encode_events(events).coupled.tolist() == [1, 0, 0, 0, 0]


def test_strangers_of_every_kind_are_left_out() -> None:
    encoder = make({"a": {"numbers": [1], "strings": ["x"]}, "b": {"numbers": [0.5]}})
    others = [1, 0.5, float("nan"), 1 << 70, "x", "\N{SNOWMAN}", None, True, [], [1, "x", None], [0.5] * 9]
    for i, other in enumerate(others * 3):
        event = {"a": i % 3, f"n{i}": other, "b": [0.5, None, [2, 0.5]][i % 3], "m": other}
        assert same(encoder.encode_event(event), encoder.encode_event(Event(event)))


@pytest.mark.parametrize("cell", [boxed(3), boxed(1 << 30), DROPPED])
def test_a_nan_of_an_event_cannot_pass_for_a_rank(cell: float) -> None:
    encoder = make({"a": {"numbers": [1], "strings": ["x"]}})
    assert entries(encoder.encode_events([{"a": cell}, {"a": [cell, 1]}, {"b": cell}])) == [{0: {0}}, {0: {0, 7}}, {}]


def test_other_mappings_are_read_as_events() -> None:
    encoder = make({"a": {"numbers": [1]}})
    assert entries(encoder.encode_event(MappingProxyType({"a": 1}))) == [{0: {7}}]


@pytest.mark.parametrize(
    "constants",
    [
        [float(n) for n in range(100)] + [0.5],
        [n * n * n for n in range(-200, 200)],
        [-(2**63), 2**63 - 1, *range(2**53 - 40, 2**53 + 40)],
        [2.0**n for n in range(-1000, 1000, 7)],
        [-1.7e308, 1.7e308, *(n / 7 for n in range(90))],
        [math.inf, -math.inf, *(n / 3 for n in range(90))],
    ],
    ids=["few fractions", "cubes", "around 2**53", "powers", "the ends", "infinities"],
)
def test_single_numbers_find_their_rank_among_many(constants: list[float]) -> None:
    encoder = make({"a": {"numbers": constants}})
    near = [math.nextafter(float(c), way) for c in constants for way in (-math.inf, math.inf)]
    whole = [int(c) + by for c in constants if math.isfinite(c) and abs(c) < 2**62 for by in (-1, 0, 1)]
    for value in [*constants, *near, *whole, 0, -0.0, 1e308, -1e308, math.inf, -math.inf]:
        if not math.isfinite(value):
            continue
        below = sum(c < value for c in constants)
        expected = encoder._arrays["rank_base"][0, 1] + 2 * below + (value in constants)
        assert encoder.encode_event({"a": value}).ranks.tolist() == [expected], value
