"""The deterministic tree: one path per event, regions for other and absent values, lists, the budget."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whimbrel.matchers import gough as gough_module
from whimbrel.matchers.gough import Gough
from whimbrel.matchers.shared.option_checks import MatcherOptionError
from whimbrel.model.errors import LimitExceeded, UnsupportedEvent, UnsupportedFilter
from whimbrel.model.filter import Filter
from whimbrel.model.limits import Limit

NAMES = ["a", "b", "c", "d"]


def gough_of(*texts: str, budget: int = 200_000) -> Gough:
    gough = Gough(budget=budget, count=True)
    for id, text in enumerate(texts):
        gough.add(id, text)
    gough.freeze()
    gough._check()
    return gough


def random_filter(random: Random) -> str:
    literals = []
    for name in random.sample(NAMES, random.randint(1, 3)):
        op = random.choice(["=", "<", ">=", "between", "!=", "IN"])
        low = random.randrange(8)
        operand = {"between": f"BETWEEN {low} AND {low + 3}", "IN": f"IN ({low}, {low + 2})"}.get(op, f"{op} {low}")
        literals.append(f"{name} {operand}")
    return " AND ".join(literals)


def random_event(random: Random) -> dict[str, object]:
    pool: list[object] = [*range(-1, 12), 2.5, "x", True, None]
    draw = lambda: random.choice(pool) if random.random() < 0.8 else random.choices(pool, k=3)  # noqa: E731
    return {name: draw() for name in NAMES if random.random() < 0.8}


def test_an_event_follows_one_path_whatever_it_matches() -> None:
    gough = gough_of(*(f"a = {i} AND b = {j}" for i in range(5) for j in range(5)), "a < 9", "b = 3")
    assert gough.match({"a": 2, "b": 3}) == [13, 25, 26]
    assert gough.stats()["nodes_visited"] == 1 + len(gough._dag.arrays.levels)
    assert gough.match({"b": 99}) == []
    assert gough.stats()["nodes_visited"] == 5  # after the first level only "b = 3" is left, after the second nobody


def test_a_value_that_nobody_names_leaves_those_who_do_not_ask() -> None:
    gough = gough_of("a = 1 AND b = 1", "b = 1")  # ERR-12a
    assert gough.match({"a": 7, "b": 1}) == [1]
    assert gough.match({"a": "7", "b": 1}) == [1]


def test_a_missing_attribute_has_an_edge_of_its_own() -> None:
    gough = gough_of("a < 5 AND b = 1", "a != 5", "b = 1")  # AMB-12b
    assert gough.match({"b": 1}) == [2]
    assert gough.match({"a": None, "b": 1}) == [2]
    assert gough.match({"a": 4, "b": 1}) == [0, 1, 2]


def test_of_a_list_every_value_is_followed() -> None:
    gough = gough_of("a > 10 AND a < 20", "a = 5 AND b = 1", "a = 30 AND b = 2", "a != 5")
    assert gough.match({"a": [5, 30], "b": [1, 2]}) == [1, 2, 3]
    assert gough.match({"a": [None, 5], "b": 1}) == [1]


def test_lists_in_tables_match_as_single_events_do() -> None:
    import pyarrow as pa

    gough = gough_of("a > 10 AND a < 20", "a = 5 AND b = 1", "b = 1")
    rows = [{"a": [5, 30], "b": 1}, {"a": [None, 15], "b": 2}, {"a": [], "b": 1}, {"a": None, "b": None}]
    table = gough.match_batch(pa.Table.from_pylist(rows)).to_pydict()
    pairs = [(row, id) for row, event in enumerate(rows) for id in gough.match(event)]
    assert sorted(zip(table["event"], table["subscription"], strict=True)) == pairs


def test_equal_sets_are_one_node() -> None:
    gough = gough_of(*(f"a = {i} AND b = 1" for i in range(50)), "b = 1")
    stats = gough.stats()
    assert (stats["nodes"], stats["leaves"]) == (53, 51)  # b, on which all agree, is the first level
    assert gough_of("a IN (1, 5, 9) AND b IN (2, 4)").stats()["nodes"] == 3


def test_a_few_subscriptions_make_many_nodes() -> None:
    random = Random(3)
    texts = []
    for _ in range(25):
        bounds = [sorted(random.sample(range(1_000), 2)) for _ in NAMES]
        texts.append(
            " AND ".join(f"{n} BETWEEN {low} AND {high}" for n, (low, high) in zip(NAMES, bounds, strict=True))
        )
    assert gough_of(*texts).stats()["nodes"] > 500


def test_over_the_budget_a_match_is_refused_and_nothing_changes() -> None:
    gough = gough_of(*(f"a >= {i} AND b < {i}" for i in range(5)), budget=30)
    for id in range(5, 40):
        gough.add(id, f"a >= {id} AND b < {id}")
    for _ in range(2):
        with pytest.raises(LimitExceeded, match="gough node budget") as caught:
            gough.match({"a": 3, "b": 0})
        assert (caught.value.maximum, caught.value.unit) == (30, "nodes")
    with pytest.raises(LimitExceeded):
        gough.match_batch([{"a": 3, "b": 0}])
    assert len(gough) == 40
    assert gough[7].filter == Filter.parse("a >= 7 AND b < 7")
    gough._check()
    for id in range(5, 40):
        gough.remove(id)
    assert gough.match({"a": 3, "b": 0}) == [1, 2, 3]
    gough._check()


def test_sets_that_are_too_large_to_build_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gough_module, "MEMBERS", Limit("gough set members", 20, "members", "test"))
    gough = Gough()
    gough.add_many(enumerate([f"a >= {i}" for i in range(20)]))
    with pytest.raises(LimitExceeded, match="gough set members"):
        gough.match({"a": 3})


@pytest.mark.parametrize("budget", [0, -1, 1.5, True, "many"])
def test_a_budget_is_a_positive_integer(budget: object) -> None:
    with pytest.raises(MatcherOptionError, match="budget"):
        Gough(budget=budget)  # type: ignore[arg-type]


def test_what_the_tree_has_no_levels_for_is_refused() -> None:
    gough = gough_of("d.x = 1 AND d.y = 2")
    with pytest.raises(UnsupportedEvent, match="arrays of objects"):
        gough.match({"d": [{"x": 1}, {"y": 2}]})
    with pytest.raises(UnsupportedFilter, match="string patterns"):
        gough.add(1, "a LIKE '%x'")


def test_removal_leaves_no_garbage() -> None:
    random = Random(9)
    gough = gough_of(*(random_filter(random) for _ in range(12)))
    for id in range(12):
        gough.remove(id)
    assert gough.match({"a": 1}) == []
    stats = gough.stats()
    assert [stats[name] for name in ("nodes", "edges", "leaves", "leaf_entries", "levels")] == [0] * 5
    gough._check()


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_random_adds_and_removes_keep_structure_and_answers(seed: int) -> None:
    random = Random(seed)
    gough = Gough()
    kept: dict[int, Filter] = {}
    for step in range(20):
        if kept and random.random() < 0.4:
            id = random.choice(list(kept))
            gough.remove(id)
            del kept[id]
        else:
            kept[step] = Filter.parse(random_filter(random))
            gough.add(step, kept[step])
        for _ in range(3):
            event = random_event(random)
            assert gough.match(event) == [id for id, filter in kept.items() if filter.matches(event)]
        gough._check()
