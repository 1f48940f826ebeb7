from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.overlay.siena_filters import siena_filter
from tests.strategies import events, filters
from whimbrel.model.errors import FilterError
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.overlay.covering.cover_relation import CoverRelation
from whimbrel.overlay.covering.cover_table import CoverTable
from whimbrel.overlay.covering.poset import Poset
from whimbrel.overlay.router.prefix_router import PrefixRouter
from whimbrel.overlay.tree.paths import Interest

narrow = st.tuples(st.sampled_from("xy"), st.integers(0, 4), st.integers(0, 4)).map(
    lambda t: Filter.parse(f"{t[0]} >= {t[1]} AND {t[0]} <= {t[1] + t[2]}")
)
some = st.lists(st.one_of(filters.filter(lambda f: bool(f.conjunctions)), narrow, narrow), max_size=10)


def relation_of(wanted: list[Filter], many: bool) -> tuple[CoverRelation, dict[bytes, Interest]]:
    interests = {one.key: one for one in map(Interest, wanted)}
    relation = CoverRelation(interests.values() if many else ())
    for interest in interests.values():
        relation.add(interest)
    return relation, interests


@settings(max_examples=40)
@given(some, st.booleans())
def test_the_relation_has_what_comparing_all_pairs_finds(wanted: list[Filter], many: bool) -> None:
    relation, interests = relation_of(wanted, many)
    for one in interests.values():
        for two in interests.values():
            if one is not two:
                mutual = one.filter.covers(two.filter) and two.filter.covers(one.filter)
                expected = one.filter.covers(two.filter) and (not mutual or one.key < two.key)
                assert (one.key in relation.covering(two.key)) == expected == (two.key in relation.covered(one.key))


@settings(max_examples=40)
@given(some, st.lists(st.integers(0, 9), max_size=10), st.sets(st.integers(0, 9)))
def test_a_search_finds_a_covering_filter_that_is_wanted_and_none_that_was_removed(
    wanted: list[Filter], removed: list[int], allowed: set[int]
) -> None:
    table, interests = CoverTable(), {one.key: one for one in map(Interest, wanted)}
    for interest in interests.values():
        table.add(interest)
    keys = list(interests)
    for place in removed:
        if place < len(keys) and keys[place] in interests:
            table.remove(keys[place])
            del interests[keys[place]]
    fit = {keys[place] for place in allowed if place < len(keys)} & interests.keys()
    for key, interest in interests.items():
        covering = {one for one in fit - {key} if interests[one].filter.covers(interest.filter)}
        found = table.find(key, fit.__contains__)
        assert found in covering if covering else found is None
    for key in list(interests):
        for index in table._indexes.values():
            index._check()
        table.remove(key)
    assert not table._indexes


def test_a_search_finds_the_wide_filter_behind_many_narrow_ones_and_the_nearest_of_a_chain() -> None:
    table = CoverTable()
    wide, narrow, *others = [
        Interest(Filter.parse(text))
        for text in ("x >= 0", "x BETWEEN 500 AND 505", *(f"x BETWEEN {n} AND {n + 3}" for n in range(1_000)))
    ]
    for one in (wide, narrow, *others):
        table.add(one)
    assert table.find(narrow.key, lambda _: True) == wide.key
    table.remove(wide.key)
    assert table.find(narrow.key, lambda _: True) is None
    chain = [Interest(Filter.parse(f"y < {n}")) for n in range(1_000)]
    for one in chain:
        table.add(one)
    assert table.find(chain[500].key, lambda _: True) == chain[501].key


@pytest.mark.parametrize("text", ["x < {n}", "x > {n}", "x BETWEEN {n} AND 9999 - {n}", "c = 'a' AND x <= {n}"])
@pytest.mark.parametrize("order", ["up", "down", "mixed"])
def test_a_router_compares_each_filter_of_a_chain_with_few_others(
    text: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0
    plain = Filter.covers

    def count(one: Filter, two: Filter) -> bool:
        nonlocal compared
        compared += 1
        return plain(one, two)

    monkeypatch.setattr(Filter, "covers", count)
    numbers = list(range(300)) if order == "up" else list(range(299, -1, -1))
    if order == "mixed":
        Random(1).shuffle(numbers)
    router = PrefixRouter("a")
    router.link("b")
    for n in numbers:
        filter = Filter.parse(text.replace("9999 - {n}", str(9_999 - n)).format(n=n))
        router.subscribe(f"s{n}", Interest(filter))
    for n in sorted(numbers):
        router.unsubscribe(f"s{n}")
    assert router._offers["b"].sent == set()
    assert compared < 10 * len(numbers)


@settings(max_examples=40)
@given(some, st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 2)), max_size=25), events())
def test_the_poset_finds_the_interfaces_that_want_an_event(
    wanted: list[Filter], changes: list[tuple[bool, int, int]], published: dict[str, object]
) -> None:
    relation, interests = relation_of(wanted, many=True)
    poset, held = Poset(relation), set[tuple[bytes, int]]()
    keys = list(interests)
    event = Event({**published, "x": 3, "y": 1})
    for add, place, interface in changes:
        if not keys:
            break
        key = keys[place % len(keys)]
        if add:
            poset.insert(key, interface)
            held.add((key, interface))
        elif (key, interface) in held:
            poset.remove(key, interface)
            held.discard((key, interface))
        poset._check()
        found = poset.match(lambda one: (interests[one].filter.matches(event), 1))
        assert found.interfaces == {i for k, i in held if interests[k].filter.matches(event)}


@pytest.mark.parametrize(
    ("constraints", "normal"),
    [
        ([("x", ">", 5), ("x", ">", 2), ("y", ">", 3)], "x > 5 AND y > 3"),
        ([("z", "=", 9), ("z", "<", 10), ("z", ">", 2)], "z = 9"),
        ([("x", "any", None), ("x", "<", 4)], "x < 4"),
        ([("x", ">", 3), ("x", "<", 6)], "x > 3 AND x < 6"),
        ([("x", "=", 5), ("x", "=", 6)], "x CONTAINS ALL (5, 6)"),
        ([("s", "prefix", "ab"), ("s", "prefix", "a")], "s STARTS WITH 'ab'"),
        ([("s", "substring", "50%_")], r"s LIKE '%50\%\_%'"),
    ],
)
def test_normalisation(constraints: list[tuple[str, str, object]], normal: str) -> None:
    assert siena_filter(constraints) == Filter.parse(normal)  # type: ignore[arg-type]


def test_contradictions_match_nothing_and_bad_constraints_are_refused() -> None:
    assert not siena_filter([("x", ">", 5), ("x", "<", 3)]).is_satisfiable()
    with pytest.raises(FilterError, match="Expected a string after prefix, but got int"):
        siena_filter([("x", "prefix", 5)])
    with pytest.raises(FilterError, match="Expected an operator of"):
        siena_filter([("x", "~", 5)])
