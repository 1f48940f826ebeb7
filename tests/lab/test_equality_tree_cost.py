"""The bounds of the equality tree: the paper's numbers, their order, and the tree itself measured against them."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.lab.equality_tree_cost import (
    STAR,
    decay_exponent,
    expected_cost,
    greedy_bound,
    theorem_1,
    worst_case,
)
from whimbrel.matchers.equality_tree.equality_tree import EqualityTree


@pytest.mark.parametrize(
    ("values", "subscriptions", "exponent", "theorem"),
    [(3, 1_000, 0.2424, 7_752), (3, 25_000, 0.2424, 88_831), (30, 25_000, 0.4976, 10_005)],
)
def test_theorem_1_gives_the_reference_numbers(values: int, subscriptions: int, exponent: float, theorem: int) -> None:
    assert round(decay_exponent(values, 30), 4) == exponent
    assert round(theorem_1(values, 30, subscriptions)) == theorem


def test_the_greedy_bound_gives_the_reference_number() -> None:
    assert round(greedy_bound(3, 30, 1_000)) == 3_782


@st.composite
def subscription_sets(draw: st.DrawFn) -> tuple[int, int, set[tuple[int | None, ...]]]:
    values, attributes = draw(st.integers(2, 5)), draw(st.integers(1, 6))
    constants = st.one_of(st.none(), st.integers(0, values - 1))
    rows = draw(st.sets(st.tuples(*[constants] * attributes), min_size=1, max_size=60))
    return values, attributes, rows


@given(subscription_sets())
def test_each_bound_is_above_the_one_before(drawn: tuple[int, int, set[tuple[int | None, ...]]]) -> None:
    values, attributes, rows = drawn
    chain = [
        expected_cost(rows, values),
        greedy_bound(values, attributes, len(rows)),
        theorem_1(values, attributes, len(rows)),
    ]
    assert all(low <= high * (1 + 1e-9) for low, high in pairwise(chain)), chain


@given(st.integers(2, 1_000), st.integers(1, 200), st.integers(1, 10**9))
def test_bounds_keep_their_order_for_any_size(values: int, attributes: int, subscriptions: int) -> None:
    chain = [bound(values, attributes, subscriptions) for bound in (greedy_bound, theorem_1)]
    assert all(low <= high * (1 + 1e-9) for low, high in pairwise(chain)), chain


def test_no_subscription_costs_nothing_and_one_without_tests_visits_every_level() -> None:
    assert expected_cost([], 3) == 0
    assert expected_cost([(STAR,) * 4], 3) == 5


@pytest.mark.parametrize("arguments", [(1, 30, 10), (3, 0, 10), (3, 30, 0)])
def test_sizes_for_which_the_bounds_say_nothing_are_refused(arguments: tuple[int, int, int]) -> None:
    for bound in (theorem_1, greedy_bound):
        with pytest.raises(ValueError, match="Expected"):
            bound(*arguments)


def test_subscriptions_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"lengths \[1, 2\]"):
        expected_cost([(1,), (1, 2)], 3)


def random_tree(
    values: int, attributes: int, subscriptions: int, random: Random
) -> tuple[EqualityTree, list[list[int | None]]]:
    """A plain tree of random subscriptions, 65 % of whose attributes are not tested, and their rows."""
    names = [f"a{i}" for i in range(attributes)]
    tree = EqualityTree(collapse=False, successors=False, aggressive=False, order=names, count=True)
    rows = []
    while len(rows) < subscriptions:
        row = [STAR if random.random() < 0.65 else random.randrange(values) for _ in names]
        if any(constant is not STAR for constant in row):
            tree.add(len(rows), " AND ".join(f"{n} = {c}" for n, c in zip(names, row, strict=True) if c is not STAR))
            rows.append(row)
    return tree, rows


def test_mean_of_visited_nodes_converges_to_the_exact_cost_and_stays_under_the_bounds() -> None:
    random = Random(7)
    tree, rows = random_tree(3, 30, 1_000, random)
    exact = expected_cost(rows, 3)
    assert 400 < exact < 475  # 437 in the digest's draw
    visits = []
    for batch in range(1, 81):
        tree.match_batch([{f"a{i}": random.randrange(3) for i in range(30)} for _ in range(50)])
        visits.append(int(tree.stats()["nodes_visited"]) / 50 - sum(visits))
        assert tree.stats()["events"] == 50 * batch
    error = stdev(visits) / len(visits) ** 0.5
    assert abs(mean(visits) - exact) < 4 * error
    assert mean(visits) < greedy_bound(3, 30, 1_000) < theorem_1(3, 30, 1_000)


def test_every_event_of_a_small_domain_together_visits_exactly_the_cost() -> None:
    random = Random(1)
    tree, rows = random_tree(2, 5, 40, random)
    for number in range(2**5):
        tree.match({f"a{i}": number >> i & 1 for i in range(5)})
    assert tree.stats()["nodes_visited"] == pytest.approx(2**5 * expected_cost(rows, 2))


@given(subscription_sets(), st.randoms(use_true_random=False))
def test_no_event_visits_more_nodes_than_the_worst_case(
    drawn: tuple[int, int, set[tuple[int | None, ...]]], random: Random
) -> None:
    values, attributes, rows = drawn
    names = [f"a{i}" for i in range(attributes)]
    tree = plain_tree(names, rows)
    event = {name: random.randrange(values) for name in names}
    tree.match(event)
    assert tree.stats()["nodes_visited"] <= worst_case(attributes, len(rows))


@pytest.mark.parametrize("attributes", [1, 3, 5])
def test_the_worst_case_is_reached_where_each_value_is_tested_or_not(attributes: int) -> None:
    names = [f"a{i}" for i in range(attributes)]
    tree = plain_tree(names, set(product([1, STAR], repeat=attributes)))
    tree.match(dict.fromkeys(names, 1))
    # All nodes but the leaf of the subscription that tests nothing, which is kept beside the tree.
    assert tree.stats()["nodes_visited"] + 1 == 2 ** (attributes + 1) - 1 == worst_case(attributes, 2**attributes)


def plain_tree(names: list[str], rows: set[tuple[int | None, ...]]) -> EqualityTree:
    """The tree without optimisations, with a level for every name."""
    tree = EqualityTree(collapse=False, successors=False, aggressive=False, order=names, count=True)
    for id, row in enumerate(sorted(rows, key=str)):
        tree.add(id, " AND ".join(f"{n} = {c}" for n, c in zip(names, row, strict=True) if c is not STAR) or "TRUE")
    tree.freeze()
    return tree
