"""The IBS-tree: every interval that contains a value, once, whatever the order of changes and rotations."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import numbers, strings
from whimbrel.matchers.hanson.ibs_tree import IbsNode, IbsTree, MarkedInterval, nodes_of, rotate
from whimbrel.model.intervals import IntervalSet, compare_set
from whimbrel.model.normal_form import key_of
from whimbrel.model.values import NUMBER, STRING

operators = st.sampled_from(["=", "<", "<=", ">", ">="])


def interval(op: str, value: object, other: object = None) -> IntervalSet:
    """`x op value`, or what lies from the lesser value to the greater one."""
    if other is None:
        return compare_set(op, key_of(value))  # type: ignore[arg-type]
    low, high = sorted([key_of(value), key_of(other)])  # type: ignore[arg-type]
    return compare_set(">=", low).intersect(compare_set("<", high))


def answers(tree: IbsTree, value: object) -> list[int]:
    hits: list[MarkedInterval] = []
    tree.search(value, hits)
    found = [member for hit in hits for member in hit.members]
    assert len(found) == len(set(found))
    return sorted(found)


def brute(sets: dict[int, IntervalSet], kind: int, value: object) -> list[int]:
    return sorted(member for member, held in sets.items() if (kind, value) in held)


def random_sets(rng: random.Random, n: int) -> dict[int, IntervalSet]:
    out = {}
    for member in range(n):
        other = rng.randint(0, 60) if rng.random() < 0.6 else None
        found = interval(rng.choice(["=", "<", "<=", ">", ">="]), rng.randint(0, 60), other)
        if found:
            out[member] = found
    return out


@pytest.mark.parametrize(("kind", "pool"), [(NUMBER, numbers), (STRING, strings)])
@given(data=st.data())
def test_a_value_finds_exactly_the_intervals_that_contain_it(
    kind: int, pool: st.SearchStrategy[object], data: st.DataObject
) -> None:
    tree, sets = IbsTree(kind), {}
    for member, (op, value, other) in enumerate(
        data.draw(st.lists(st.tuples(operators, pool, st.one_of(st.none(), pool)), max_size=15))
    ):
        found = interval(op, value, other)
        if found:
            sets[member] = found
            tree.add(*found.cuts, member)
    tree.check()
    for member in data.draw(st.lists(st.sampled_from(sorted(sets)), unique=True)) if sets else []:
        tree.remove(*sets.pop(member).cuts, member)
    tree.check()
    for value in data.draw(st.lists(pool, min_size=1, max_size=5)):
        key = key_of(value)  # type: ignore[arg-type]
        assert answers(tree, key[1]) == brute(sets, kind, key[1])


def test_random_rotations_keep_all_answers() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        sets = random_sets(rng, 40)
        tree = IbsTree(NUMBER)
        for member, held in sets.items():
            tree.add(*held.cuts, member)
        for _ in range(60):
            rotate_somewhere(tree, rng)
        for step in range(-1, 62):
            for value in (step, step + 0.5):
                assert answers(tree, value) == brute(sets, NUMBER, value)


def test_after_rotations_intervals_can_still_be_removed() -> None:
    # Marks stay where marking anew would put them, so unmarking finds every one of them.
    rng = random.Random(3)
    sets = random_sets(rng, 40)
    tree = IbsTree(NUMBER)
    for member, held in sets.items():
        tree.add(*held.cuts, member)
    for _ in range(60):
        rotate_somewhere(tree, rng)
    for member in list(sets)[::2]:
        tree.remove(*sets.pop(member).cuts, member)
    marked = {hit for node in nodes_of(tree.root) for marks in node.marks for hit in marks}
    assert {member for hit in marked for member in hit.members} == sets.keys()


def rotate_somewhere(tree: IbsTree, rng: random.Random) -> None:
    """One rotation at a random node, without regard to balance."""
    above = {id(child): node for node in nodes_of(tree.root) for child in node.children if child}
    node = rng.choice([node for node in nodes_of(tree.root) if any(node.children)])
    parent = above.get(id(node))
    lifted = rotate(node, rng.choice([side for side in (0, 1) if node.children[side]]))
    if parent is None:
        tree.root = lifted
    else:
        parent.children[parent.children.index(node)] = lifted


def test_sorted_keys_make_a_flat_tree() -> None:
    tree = IbsTree(NUMBER)
    for member in range(1_000):
        tree.add(*interval("=", member).cuts, member)
    tree.check()
    assert isinstance(tree.root, IbsNode) and tree.root.height <= 15
    assert tree.search(-1, []) <= 15


def test_an_interval_without_ends_is_found_with_and_without_keys() -> None:
    tree = IbsTree(STRING)
    everything = interval(">=", "")
    tree.add(*everything.cuts, 0)
    assert answers(tree, "x") == [0]
    tree.add(*interval("=", "x").cuts, 1)
    assert answers(tree, "x") == [0, 1]
    assert answers(tree, "y") == [0]
    tree.remove(*everything.cuts, 0)
    tree.check()
    assert answers(tree, "x") == [1]


def test_keys_of_removed_intervals_go_when_they_outnumber_the_others() -> None:
    tree = IbsTree(NUMBER)
    for member in range(100):
        tree.add(*interval("=", member).cuts, member)
    for member in range(95):
        tree.remove(*interval("=", member).cuts, member)
        tree.check()
    assert tree.nodes <= 2 * 5 + 8
    assert answers(tree, 97) == [97] and answers(tree, 3) == []


def test_members_of_one_interval_share_its_marks() -> None:
    tree = IbsTree(NUMBER)
    for member in range(50):
        tree.add(*interval("<", 7).cuts, member)
    assert len(tree.intervals) == tree.nodes == 1
    tree.remove(*interval("<", 7).cuts, 20)
    assert len(answers(tree, 6)) == 49
