"""Matchers that subscriptions come to and leave for long: places are used again, and the order stays."""

from __future__ import annotations

import random

import pytest

from whimbrel import Filter
from whimbrel.language.columnar.terms import READY_FROM
from whimbrel.matchers import MATCHERS, make
from whimbrel.matchers.shared import base
from whimbrel.matchers.shared.frozen import FrozenMatcher

TEXTS = ("a = 1", "a = 0", "a = 1 AND b = 1", "b = 0 AND c = 1", "c = 1")
EVENTS = ({"a": 1, "b": 1, "c": 0}, {"a": 0, "b": 0, "c": 1})


@pytest.mark.parametrize("options", [{}, {"types": "structures"}], ids=["plain", "types"])
@pytest.mark.parametrize("name", MATCHERS)
def test_places_of_removed_subscriptions_are_used_again(
    name: str, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_EMPTY_PLACES", 4)
    draw, matcher = random.Random(20261118), make(name, **options)
    kept: dict[int, str] = {}
    for turn in range(20):
        new = {10 * turn + n: draw.choice(TEXTS) for n in range(5)}
        if turn % 2:
            matcher.add_many(new.items())
        else:
            for id, text in new.items():
                matcher.add(id, text)
        kept |= new
        changed = draw.choice(list(kept))
        kept[changed] = draw.choice(TEXTS)
        matcher.replace(changed, kept[changed])
        for id in draw.sample(list(kept), max(0, len(kept) - draw.randint(1, 4))):
            matcher.remove(id)
            del kept[id]
        assert list(matcher) == list(kept) and len(matcher._ids) <= 2 * len(kept) + 4
        matcher._check()
        for event in EVENTS:
            wanted = [id for id, text in kept.items() if Filter.parse(text).matches(event)]
            assert matcher.match(event) == wanted
            assert sorted(matcher.match_batch([event])["subscription"].to_pylist()) == sorted(wanted)


def test_columns_of_removed_subscriptions_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_EMPTY_PLACES", 4)
    matcher = make("compiled_naive")
    assert isinstance(matcher, FrozenMatcher)
    for turn in range(5):
        matcher.add_many((f"{turn}/{n}", f"price = {n} AND shop{turn} = 'x'") for n in range(READY_FROM))
        matcher.replace(f"{turn}/7", "price = 8")
        for n in range(READY_FROM - 10):
            matcher.remove(f"{turn}/{n if n != 7 else READY_FROM - 5}")
        assert matcher.match({"price": 8}) == [f"{past}/7" for past in range(turn + 1)]
        wanted = f"{turn}/{READY_FROM - 2}"
        assert matcher.match({"price": READY_FROM - 2, f"shop{turn}": "x"}) == [wanted]
        assert str(matcher[wanted].filter) == f"price = {READY_FROM - 2} AND shop{turn} = 'x'"
        matcher._check()
    for id in list(matcher):
        matcher.remove(id)
    assert len(matcher._ids) <= 4 and sum(len(load.rows) for load in matcher._bulk.loads) <= 4
