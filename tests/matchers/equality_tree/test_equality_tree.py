"""The equality tree: the paper's figure, its options against each other, factoring, and change."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whimbrel.matchers.equality_tree import equality_tree, level_tree
from whimbrel.matchers.equality_tree.equality_tree import EqualityTree
from whimbrel.matchers.equality_tree.level_tree import paths
from whimbrel.matchers.shared.option_checks import MatcherOptionError
from whimbrel.model.errors import UnsupportedEvent, UnsupportedFilter
from whimbrel.model.filter import Filter
from whimbrel.model.limits import Limit
from whimbrel.model.values import NUMBER

NAMES = ["a", "b", "c", "d", "e", "f"]
PLAIN = {"collapse": False, "successors": False, "aggressive": False}
OPTIONS = [
    dict(zip(PLAIN, switches, strict=True)) | {"index_attributes": index}
    for switches in product([False, True], repeat=3)
    for index in ((), ("a",), ("b", "d"))
]


def text_of(row: list[int | None] | tuple[int | None, ...]) -> str:
    return " AND ".join(f"{n} = {c}" for n, c in zip(NAMES, row, strict=False) if c is not None) or "TRUE"


def tree_of(*rows: tuple[int | None, ...], **options: Any) -> EqualityTree:
    tree = EqualityTree(order=NAMES, **{"count": True, **options})
    for id, row in enumerate(rows):
        tree.add(id, text_of(row))
    tree.freeze()
    tree._check()
    return tree


def random_rows(random: Random, count: int, values: int, levels: int = 6) -> list[list[int | None]]:
    return [[random.randrange(values) if random.random() < 0.5 else None for _ in range(levels)] for _ in range(count)]


def random_event(random: Random, values: int) -> dict[str, int]:
    return {name: random.randrange(values + 1) for name in NAMES if random.random() < 0.9}


@pytest.mark.parametrize("collapse", [False, True])
def test_figure_6_successors_of_the_node_1_2_3(collapse: bool) -> None:
    e, f, g, h = (None, None, 3), (None, 2, None), (1, None, 3), (1, 2, None)
    c = (1, 2, 3)
    rows = [(*path, 7) for path in (c, e, f, g, h)]
    tree = tree_of(*rows, (*c, None), aggressive=False, collapse=collapse)
    lookup = tree._rows.dictionary.lookup

    def ranked(path: tuple[int | None, ...]) -> tuple[int, ...]:
        return tuple(-1 if x is None else lookup(i).rank((NUMBER, x)) for i, x in enumerate(path))

    where = [path for _, path in paths(tree._tree)]
    successors = {where[node] for node in tree._tree.list_of(where.index(ranked(c)))}
    assert successors == {ranked(path) for path in (e, f, g, h, (*c, None))}


def test_figure_6_an_event_that_is_blocked_below_1_2_3_ends_at_k_alone() -> None:
    """Blocked at C, the walk goes to E, F, G, H; all are blocked as well but H, below which is K."""
    c, e, f, g, k = (1, 2, 3, 7), (None, None, 3, 7), (None, 2, None, 7), (1, None, 3, 7), (1, 2, None, 8)
    tree = tree_of(c, e, f, g, k)
    assert tree.match({"a": 1, "b": 2, "c": 3, "d": 8}) == [4]
    assert tree.match({"a": 1, "b": 2, "c": 3, "d": 7}) == [0, 1, 2, 3]


def test_a_blocked_walk_goes_on_from_the_successors() -> None:
    tree = tree_of((1, 2, 3, 7), (None, None, 3, None), (1, None, None, 8), (None, 2, None, None))
    assert tree.match({"a": 1, "b": 2, "c": 3, "d": 8}) == [1, 2, 3]
    assert tree.match({"a": 1, "b": 2, "c": 4}) == [3]


def test_every_option_gives_the_answer_of_the_reference() -> None:
    random = Random(3)
    for values in (3, 12):  # with 12, a node has more edges than are compared in a row
        rows = random_rows(random, 60, values)
        filters = [Filter.parse(text_of(row)) for row in rows]
        trees = [tree_of(*map(tuple, rows), **options) for options in OPTIONS]
        for _ in range(25):
            event = random_event(random, values)
            expected = [id for id, filter in enumerate(filters) if filter.matches(event)]
            assert [tree.match(event) for tree in trees] == [expected] * len(trees)


def test_each_option_visits_fewer_nodes() -> None:
    random = Random(11)
    rows = [tuple(row) for row in random_rows(random, 400, 3)]
    events = [random_event(random, 3) for _ in range(100)]

    def visits(**options: Any) -> int:
        tree = tree_of(*rows, **options)
        for event in events:
            tree.match(event)
        return int(tree.stats()["nodes_visited"])

    plain = visits(**PLAIN)
    successors = visits(collapse=False, successors=True, aggressive=False)
    aggressive = visits(collapse=False, successors=True, aggressive=True)
    assert plain > successors > aggressive
    assert visits(collapse=True, successors=False, aggressive=False) < plain
    assert visits() < aggressive
    assert visits(**PLAIN, index_attributes=("a", "b")) < plain


def test_successor_lists_visit_each_node_at_most_once() -> None:
    random = Random(5)
    for options in ({"collapse": c, "aggressive": a} for c in (False, True) for a in (False, True)):
        tree = tree_of(*map(tuple, random_rows(random, 200, 3)), **options)
        assert tree.stats()["successor_entries"] > 0
        tree._check()  # walks it with events drawn from its own paths


def test_collapse_leaves_out_the_nodes_with_only_a_star_edge() -> None:
    row = (1, None, None, None, None, 2)
    full = tree_of(row, (3, 1, 1, 1, 1, 1), **PLAIN)
    collapsed = tree_of(row, (3, 1, 1, 1, 1, 1), collapse=True, successors=False, aggressive=False)
    assert full.stats()["nodes"] - collapsed.stats()["nodes"] == 4
    assert len(set(paths(collapsed._tree))) == collapsed.stats()["nodes"]


def test_values_of_different_types_are_different_edges() -> None:
    tree = EqualityTree()
    for id, literal in enumerate(("1", "TRUE", "'1'", "TIMESTAMP '1970-01-01'", "0.5", "9007199254740993")):
        tree.add(id, f"a = {literal}")
    tree.freeze()
    assert [tree.match({"a": value}) for value in (1.0, True, "1", 0.5, 2**53 + 1, 2**53)] == [
        *([0], [1], [2], [4], [5], [])
    ]


def test_an_unseen_or_missing_index_value_finds_what_does_not_test_it() -> None:
    tree = tree_of((1, 2), (None, 2), (2, None), (None, 3), index_attributes=("a", "b"))
    assert tree.match({"a": 99, "b": 2}) == [1]
    assert tree.match({"b": 2}) == [1]
    assert tree.match({"a": None, "b": 3}) == [3]
    assert tree.match({"a": 2, "b": 99}) == [2]
    assert tree.stats()["subtrees"] == 7


def test_a_closed_domain_has_a_subtree_per_combination_of_values_and_no_other() -> None:
    rows = [(a, b, c) for a in (0, 1, 2, None) for b in (0, 1, None) for c in (0, None)]
    open_tree, tree = (tree_of(*rows, index_attributes=("a", "b"), closed=closed) for closed in (False, True))
    assert [one.stats()["subtrees"] for one in (open_tree, tree)] == [4 * 3, 3 * 2]
    events = [{"a": a, "b": b, "c": c} for a in range(3) for b in range(2) for c in range(2)]
    for event in events:
        expected = [id for id, row in enumerate(rows) if Filter.parse(text_of(row)).matches(event)]
        assert tree.match(event) == open_tree.match(event) == expected
    assert tree.match_batch(events).num_rows == open_tree.match_batch(events).num_rows


def test_an_event_outside_of_a_closed_domain_is_refused_until_a_subscription_tests_its_value() -> None:
    tree = tree_of((1, 2), (None, 2), (2, None), index_attributes=("a",), closed=True)
    for event in ({"a": 3, "b": 2}, {"b": 2}, {"a": None, "b": 2}):
        with pytest.raises(UnsupportedEvent, match="closed=True - at a"):
            tree.match(event)
        with pytest.raises(UnsupportedEvent, match="closed=True - at a"):
            tree.match_batch([{"a": 1, "b": 2}, event])
    tree.add(77, "a = 3 AND b = 2")
    assert tree.match({"a": 3, "b": 2}) == [1, 77]
    tree._check()


def test_an_index_value_that_came_after_the_batch_loses_nothing() -> None:
    tree = tree_of((1, 2), (None, 2), (2, 2), (3, 1), (4, 4), index_attributes=("a",))
    tree.add(77, "a = 5 AND b = 2")
    assert tree.match({"a": 5, "b": 2}) == [1, 77]
    tree._check()


def test_all_attributes_can_be_index_attributes() -> None:
    tree = tree_of((1, 2), (None, 2), (1, None), index_attributes=("a", "b"))
    assert tree.match({"a": 1, "b": 2}) == [0, 1, 2]
    assert tree.stats()["levels"] == 0


@pytest.mark.parametrize("index", ["a", ("a", "a"), (1,), 5])
def test_bad_index_attributes_are_refused(index: Any) -> None:
    with pytest.raises(MatcherOptionError, match="index_attributes"):
        EqualityTree(index_attributes=index)


def test_of_the_index_attributes_only_those_take_part_that_make_few_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equality_tree, "COPIES", Limit("factored copies", 35, "copies", "test"))
    tree = tree_of(*((i, None, 1) for i in range(9)), (None, 1), (2, 2), index_attributes=("b", "a", "f"))
    assert tree.stats()["index_attributes"] == 1
    assert tree.match({"a": 2, "b": 1, "c": 1}) == [2, 9]


def test_successor_lists_that_would_be_too_large_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level_tree, "ENTRIES_PER_NODE", 0)
    random = Random(2)
    rows = [tuple(row) for row in random_rows(random, 60, 2)]
    tree, plain = tree_of(*rows), tree_of(*rows, **PLAIN)
    assert tree.stats()["successor_entries"] == 0
    for _ in range(50):
        event = random_event(random, 2)
        assert tree.match(event) == plain.match(event)


def test_lists_and_ranges_are_refused() -> None:
    tree = tree_of((1, None))
    with pytest.raises(UnsupportedEvent, match="several values"):
        tree.match({"a": [1, 2]})
    with pytest.raises(UnsupportedFilter, match="ranges"):
        tree.add(9, "a < 5")
    tree.add(10, "d.x = 1")
    with pytest.raises(UnsupportedEvent, match="arrays of objects"):
        tree.match({"d": [{"x": 1}]})


def test_work_is_counted_on_demand() -> None:
    plain = {**PLAIN, "order": NAMES}
    counting, silent = EqualityTree(**plain, count=True), EqualityTree(**plain)
    for tree in (counting, silent):
        tree.add(0, "a = 1 AND b = 2")
        tree.freeze()
        tree.match({"a": 1, "b": 2})
    assert (counting.stats()["nodes_visited"], counting.stats()["comparisons"]) == (3, 2)
    assert "nodes_visited" not in silent.stats()


def test_adds_after_a_batch_are_answered_from_the_overlay_until_it_is_worth_a_rebuild() -> None:
    tree = tree_of(*((i, i % 3) for i in range(200)))
    for id in range(1_000, 1_005):
        tree.add(id, f"a = 1 AND c = {id}")
        assert tree.match({"a": 1, "c": id}) == [id]
    assert len(tree._overlay.leaves) == 5
    tree.remove(1_003)
    tree._check()
    for id in range(2_000, 2_100):
        tree.add(id, f"f = {id}")
    assert tree.match({"f": 2_050}) == [2_050]
    assert len(tree._overlay.leaves) == 0
    tree._check()


def test_bulk_loads_and_batches_give_the_same_answers() -> None:
    random = Random(4)
    rows = random_rows(random, 80, 3)
    one, many = EqualityTree(index_attributes=("b",)), EqualityTree(index_attributes=("b",))
    for id, row in enumerate(rows):
        one.add(id, text_of(row))
    many.add_many(enumerate([text_of(row) for row in rows]))
    events = [random_event(random, 3) for _ in range(40)]
    found = [one.match(event) for event in events]
    assert [many.match(event) for event in events] == found
    assert many.match_batch(events).num_rows == sum(map(len, found))
    many._check()


def test_removal_leaves_no_garbage() -> None:
    random = Random(8)
    tree = EqualityTree(index_attributes=("a",))
    for id, row in enumerate(random_rows(random, 300, 3)):
        tree.add(id, text_of(row))
    tree.match({"a": 1})
    for id in random.sample(range(300), 300):
        tree.remove(id)
    assert tree.match(dict.fromkeys(NAMES, 1)) == []
    stats = tree.stats()
    assert [stats[name] for name in ("nodes", "edges", "successor_entries", "subtrees")] == [0, 0, 0, 0]
    assert stats["overlay_nodes"] == 0
    tree._check()


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32), options=st.sampled_from(OPTIONS))
def test_random_adds_and_removes_keep_structure_and_answers(seed: int, options: dict[str, Any]) -> None:
    random = Random(seed)
    tree = EqualityTree(**options)
    kept: dict[int, Filter] = {}
    for step in range(60):
        if kept and random.random() < 0.4:
            id = random.choice(list(kept))
            tree.remove(id)
            del kept[id]
        else:
            kept[step] = Filter.parse(text_of(random_rows(random, 1, 3)[0]))
            tree.add(step, kept[step])
        if step % 4 == 0:
            event = random_event(random, 3)
            assert tree.match(event) == [id for id, filter in kept.items() if filter.matches(event)]
        tree._check()
