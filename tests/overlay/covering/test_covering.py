from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.overlay.siena_filters import siena_filter
from tests.strategies import events, filters
from whimbrel.model.errors import FilterError
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.overlay.covering import cover_table
from whimbrel.overlay.covering.cover_table import CoverTable
from whimbrel.overlay.covering.poset import Poset
from whimbrel.overlay.tree.paths import Interest

narrow = st.tuples(st.sampled_from("xy"), st.integers(0, 4), st.integers(0, 4)).map(
    lambda t: Filter.parse(f"{t[0]} >= {t[1]} AND {t[0]} <= {t[1] + t[2]}")
)
some = st.lists(st.one_of(filters.filter(lambda f: bool(f.conjunctions)), narrow, narrow), max_size=10)


def table_of(wanted: list[Filter], many: bool) -> tuple[CoverTable, dict[bytes, Interest]]:
    table, interests = CoverTable(), {one.key: one for one in map(Interest, wanted)}
    if many:
        table.add_many(interests.values())
    else:
        for interest in interests.values():
            table.add(interest)
    return table, interests


@settings(max_examples=120, deadline=None)
@given(some, st.booleans(), st.sampled_from([0, 3, 64]))
def test_the_table_finds_what_comparing_all_pairs_finds(wanted: list[Filter], many: bool, recent: int) -> None:
    before = cover_table._RECENT
    cover_table._RECENT = recent
    try:
        table, interests = table_of(wanted, many)
    finally:
        cover_table._RECENT = before
    for one in interests.values():
        for two in interests.values():
            if one is not two:
                mutual = one.filter.covers(two.filter) and two.filter.covers(one.filter)
                expected = one.filter.covers(two.filter) and (not mutual or one.key < two.key)
                assert (one.key in table.covering(two.key)) == expected == (two.key in table.covered(one.key))


@settings(max_examples=120, deadline=None)
@given(some, st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 2)), max_size=25), events())
def test_the_poset_finds_the_interfaces_that_want_an_event(
    wanted: list[Filter], changes: list[tuple[bool, int, int]], published: dict[str, object]
) -> None:
    table, interests = table_of(wanted, many=True)
    poset, held = Poset(table), set[tuple[bytes, int]]()
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
