"""Thousands of ranges within each other: a chain of nodes that is neither walked nor coded node by node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import filters
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.overlay.tree import lane
from whimbrel.overlay.tree.lane import ChildLane
from whimbrel.overlay.tree.paths import Interest, paths_of
from whimbrel.overlay.tree.prefix import Prefix
from whimbrel.overlay.tree.routing_tree import RoutingTree
from whimbrel.overlay.tree.tree_bytes import encode_tree
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot

CHAINS = ["x < {n}", "x > {n}", "x BETWEEN {n} AND {m}", "x < {n} AND y > {n}"]
ranges = st.tuples(st.sampled_from("xy"), st.integers(0, 20), st.integers(0, 20), st.booleans()).map(
    lambda t: Filter.parse(f"{t[0]} BETWEEN {t[1]} AND {t[2]} OR {t[0]} = 7" if t[3] else f"{t[0]} < {t[1]}")
)
some = st.lists(st.one_of(ranges, ranges, ranges, filters), max_size=25)


@contextmanager
def nests_from(depth: int) -> Iterator[None]:
    before, lane.DEEP = lane.DEEP, depth
    try:
        yield
    finally:
        lane.DEEP = before


def chain(text: str, count: int, seed: int = 1) -> list[Interest]:
    numbers = Random(seed).sample(range(count), count)
    return [Interest(Filter.parse(text.format(n=n, m=2 * count - n))) for n in numbers]


def tree_of(interests: list[Interest]) -> RoutingTree:
    tree = RoutingTree()
    for interest in interests:
        tree.insert(interest.key, interest.paths)
    return tree


@given(some, st.lists(st.integers(0, 24), max_size=10), st.lists(filters | ranges, max_size=4))
def test_a_tree_is_the_same_with_and_without_a_way_into_its_chains(
    wanted: list[Filter], removed: list[int], younger: list[Filter]
) -> None:
    found = []
    interests = list({one.key: one for one in map(Interest, wanted)}.values())
    for depth in (1, 1_000):
        with nests_from(depth):
            tree = tree_of(interests)
            tree._check()
            for place in sorted(set(removed)):
                if place < len(interests):
                    tree.remove(interests[place].key)
            for place in sorted(set(removed), reverse=True):
                if place < len(interests):
                    tree.insert(interests[place].key, interests[place].paths)
            tree._check()
            snapshot = TreeSnapshot(tree, (1, 1))
            found.append((encode_tree(snapshot), [snapshot.place(paths_of(one)) for one in younger]))
    assert found[0] == found[1]


@pytest.mark.parametrize("text", CHAINS)
def test_the_chain_is_not_walked_for_every_filter(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    def counted(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal steps
            steps += 1
            return plain(*arguments)

        return call

    for name in ("covering", "overlapping"):
        monkeypatch.setattr(ChildLane, name, counted(getattr(ChildLane, name)))
    interests = chain(text, 1_000)
    tree = tree_of(interests[:800])
    assert steps < 30 * 800
    steps = 0
    snapshot = TreeSnapshot(tree, (1, 1))
    placed = [snapshot.place(interest.paths) for interest in interests[800:]]
    assert steps < 30 * 200
    assert len({tuple(one) for one in placed}) > 100
    tree._check()


@pytest.mark.parametrize("text", CHAINS[:3])
def test_the_prefix_of_a_chain_takes_few_bytes_and_comes_back(text: str) -> None:
    snapshot = TreeSnapshot(tree_of(chain(text, 1_500)), (1, 1))
    masks = np.zeros(len(snapshot.keys), np.int64)
    masks[::100] = 2
    lengths = []
    for x in (0, 250, 750, 1_250, 1_750):
        prefix = snapshot.match(Event({"x": x, "y": x})).prefix
        coded = prefix.encode()
        assert Prefix.decode(coded).nodes.tolist() == prefix.nodes.tolist()
        assert snapshot.forward_coded(coded, masks, 6) == snapshot.forward(prefix, masks, 6)
        lengths.append((len(prefix), len(coded)))
    assert max(nodes for nodes, _ in lengths) > 500
    assert max(size for _, size in lengths) < 40


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 9)), max_size=20))
def test_numbers_with_and_without_runs_come_back(steps: list[tuple[int, int]]) -> None:
    numbers: list[int] = []
    for gap, run in steps:
        start = (numbers[-1] if numbers else 0) + gap
        numbers += range(start, start + run)
    prefix = Prefix((1, 1), b"abcd", None, np.array(numbers, np.int32))
    assert Prefix.decode(prefix.encode()).ends.tolist() == numbers
