from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import events, filters
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.overlay.tree import routing_tree
from whimbrel.overlay.tree.paths import Interest, paths_of
from whimbrel.overlay.tree.prefix import MalformedPrefix, Prefix
from whimbrel.overlay.tree.routing_tree import Node, RoutingTree
from whimbrel.overlay.tree.tree_bytes import MalformedTree, decode_tree, encode_tree
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot
from whimbrel.overlay.tree.tree_store import TreeStore

SIENA = st.lists(
    st.tuples(st.sampled_from("xy"), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), st.integers(0, 9)),
    min_size=1,
    max_size=4,
).map(lambda terms: Filter.parse(" AND ".join(f"{name} {op} {value}" for name, op, value in terms)))


def build(filters_: list[Filter]) -> tuple[RoutingTree, list[Interest]]:
    tree, interests = RoutingTree(), [Interest(filter) for filter in filters_]
    for interest in {one.key: one for one in interests}.values():
        tree.insert(interest.key, interest.paths)
    return tree, interests


def reached(snapshot: TreeSnapshot, prefix: Prefix) -> set[bytes]:
    masks = np.ones(len(snapshot.keys), np.int64)
    return set(snapshot.filters(prefix, masks, 1)[0])


def difference(old: Node, new: Node, decay: float) -> float:
    """The definition: nodes on one side only weigh all that is below them, others what differs below."""
    mine = {(c.attribute, c.constraint): c for c in old.children()}
    theirs = {(c.attribute, c.constraint): c for c in new.children()}
    alone = [c for key, c in mine.items() if key not in theirs] + [c for key, c in theirs.items() if key not in mine]
    return sum(1 + decay * c.weight for c in alone) + decay * sum(
        difference(mine[key], theirs[key], decay) for key in mine if key in theirs
    )


@settings(max_examples=40)
@given(st.lists(filters, max_size=8), st.lists(events(), max_size=4), st.sampled_from([None, 0, 1, 2]))
def test_a_prefix_reaches_every_filter_that_the_event_matches(
    wanted: list[Filter], published: list[dict[str, object]], limit: int | None
) -> None:
    tree, interests = build(wanted)
    tree._check()
    snapshot = TreeSnapshot(tree, (1, 1))
    for one in published:
        event = Event(one)
        prefix = Prefix.decode(snapshot.match(event, limit).prefix.encode())
        snapshot.check(prefix)
        found = reached(snapshot, prefix)
        assert {interest.key for interest in interests if interest.filter.matches(event)} <= found


@settings(max_examples=40)
@given(st.lists(SIENA, max_size=12), st.integers(0, 9), st.integers(0, 9))
def test_a_whole_prefix_is_exact_for_sets_of_values(wanted: list[Filter], x: int, y: int) -> None:
    tree, interests = build(wanted)
    tree._check()
    event = Event({"x": x, "y": y})
    snapshot = TreeSnapshot(tree, (1, 1))
    assert reached(snapshot, snapshot.match(event).prefix) == {i.key for i in interests if i.filter.matches(event)}


@settings(max_examples=40)
@given(st.lists(filters, max_size=8), st.lists(filters, max_size=4), events(), st.sampled_from([None, 0, 1, 2]))
def test_a_younger_filter_is_placed_where_all_its_events_come_by(
    wanted: list[Filter], younger: list[Filter], published: dict[str, object], limit: int | None
) -> None:
    snapshot = TreeSnapshot(build(wanted)[0], (1, 1))
    event = Event(published)
    prefix = snapshot.match(event, limit).prefix
    following = snapshot.forwarding.following
    covered = {0} if limit != 0 else set(range(len(snapshot)))
    for node in prefix.nodes.tolist():
        covered |= set(range(node, following[node])) if snapshot.forwarding.depth[node] == limit else {node}
    for filter in younger:
        if filter.matches(event):
            assert covered & set(snapshot.place(paths_of(filter)))


@settings(max_examples=40)
@given(st.lists(SIENA, max_size=10), st.lists(SIENA, max_size=10), st.data())
def test_removed_filters_leave_nothing_and_the_difference_is_that_of_the_definition(
    first: list[Filter], second: list[Filter], data: st.DataObject
) -> None:
    tree, interests = build(first)
    published, _ = build(first)
    tree.mark_published()
    assert tree.difference() == 0
    for filter in second:
        tree.insert(("second", filter), paths_of(filter))
        tree._check()
    total = tree.root.weight + published.root.weight
    expected = difference(published.root, tree.root, 0.5) / total if total else 0
    assert tree.difference() == pytest.approx(expected)
    keys = data.draw(st.permutations(list(tree)))
    for key in keys:
        tree.remove(key)
        tree._check()
    assert len(tree) == 0
    assert tree.difference() == (1 if first and published.root.weight else 0)
    assert len(interests) == len(first)


def test_a_path_that_would_be_split_too_often_ends_above_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_tree, "PIECES", 8)
    tree = RoutingTree()
    for low in range(0, 40, 2):
        tree.insert(low, paths_of(Filter.parse(f"x >= {low} AND x < {low + 2} AND y = {low}")))
    wide = Interest(Filter.parse("x > 1 AND x < 39 AND y > 3 AND z = 1"))
    tree.insert(wide.key, wide.paths)
    tree._check()
    snapshot = TreeSnapshot(tree, (1, 1))
    for x in range(2, 39):
        prefix = snapshot.match(Event({"x": x, "y": 5, "z": 1})).prefix
        assert wide.key in reached(snapshot, prefix)
    assert wide.key not in tree.root.ends, "a filter that gets every event"


def test_a_range_across_a_long_chain_is_exact_as_far_as_its_pieces_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_tree, "PIECES", 8)
    tree = RoutingTree()
    for number in range(20):
        tree.insert(number, paths_of(Filter.parse(f"x < {number}")))
    across = Interest(Filter.parse("x >= 5"))
    tree.insert(across.key, across.paths)
    tree._check()
    snapshot = TreeSnapshot(tree, (1, 1))
    got = [across.key in reached(snapshot, snapshot.match(Event({"x": x})).prefix) for x in range(25)]
    assert all(got[5:]), "no event is lost"
    assert across.key not in reached(snapshot, snapshot.match(Event({"y": 1})).prefix), "it gets every event"
    tree.remove(across.key)
    tree._check()
    assert len(tree) == 20
    below = Interest(Filter.parse("x >= 14"))
    tree.insert(below.key, below.paths)
    snapshot = TreeSnapshot(tree, (1, 1))
    assert [below.key in reached(snapshot, snapshot.match(Event({"x": x})).prefix) for x in range(25)] == [
        x >= 14 for x in range(25)
    ]


def test_prefixes_come_back_from_bytes_and_other_bytes_are_refused() -> None:
    ends, others = np.array([1, 5, 200, 90_000], np.int32), np.array([2, 70_000], np.int32)
    prefix = Prefix((3, 700), b"abcd", 4, ends, others)
    read = Prefix.decode(prefix.encode())
    assert (read.version, read.check, read.limit, len(read)) == ((3, 700), b"abcd", 4, 6)
    assert read.ends.tolist() == ends.tolist()
    assert read.others.tolist() == others.tolist()
    assert read.nodes.tolist() == [1, 2, 5, 200, 70_000, 90_000]
    data = prefix.encode()
    for bad in (b"", b"\1" + data[1:], data[:7], data[:12], b"\2abcd" + b"\xff" * 20, b"\2abcd\1\1\0\2\0\5\0"):
        with pytest.raises(MalformedPrefix):
            Prefix.decode(bad)
    with pytest.raises(MalformedPrefix):
        _ = Prefix.decode(data + b"\1").others
    with pytest.raises(LimitExceeded, match="prefix bytes"):
        Prefix.decode(data + bytes(70_000))
    with pytest.raises(LimitExceeded, match="prefix nodes"):
        Prefix.decode(b"\2abcd\1\1\0\xff\xff\3\0")


@settings(max_examples=40)
@given(st.lists(filters, max_size=6), st.binary(max_size=40))
def test_trees_come_back_from_bytes_and_other_bytes_are_refused(wanted: list[Filter], noise: bytes) -> None:
    tree, _ = build(wanted)
    snapshot = TreeSnapshot(tree, (1, 1), b"digest")
    again, digest = decode_tree(encode_tree(snapshot), 0.5)
    again._check()
    copy = TreeSnapshot(again, (1, 1), digest)
    assert digest == b"digest"
    assert copy.constraints == snapshot.constraints
    assert copy.attributes == snapshot.attributes
    assert [copy.ends(node) for node in range(len(copy))] == [snapshot.ends(node) for node in range(len(copy))]
    with pytest.raises(MalformedTree):
        decode_tree(noise, 0.5)


ROOT: list[object] = [0, 0, [0, 0, None, 0, 4, 0, None, 0], [], []]
SMALL, LARGE = [1, 1, 0, 0, 1, 1, 5, 0], [1, 1, 0, 0, 1, 1, 9, 0]


def test_ranges_within_each_other_are_a_chain_whose_weights_and_bytes_are_right() -> None:
    tree, _ = build([Filter.parse(f"x < {n * 37 % 100}") for n in range(100)])
    tree._check()
    again, _ = decode_tree(encode_tree(TreeSnapshot(tree, (1, 1))), 0.5)
    again._check()
    assert len(again) == len(tree) == 100 and again.root.weight == pytest.approx(tree.root.weight)
    again.remove(next(iter(again)))
    again._check()


@pytest.mark.parametrize(
    "tree",
    [
        [b"", [1 << 40], ["x"], []],
        [b"", [b"k"], ["x"], [[0, 0, [], [], [-1]]]],
        [b"", [], ["", "x"], [ROOT, [1, 1, [2, 0, 1, 0, 2, 0, "a", 0], [], []]]],
        [b"", [], ["", "x"], [ROOT, [1, 1, [], [], []]]],
        [b"", [], ["", "x"], [ROOT, [1, 1, [1, 1, "a", 0, 2, 0, None, 0], [], []]]],
        [b"", [], ["", "x"], [ROOT, [1, 1, [9, 1, "a", 0, 9, 1, "a", 1], [], []]]],
        [b"", [], ["", "x"], [ROOT, [1, 1, SMALL, [], []], [1, 1, LARGE, [], []]]],
        [b"", [], ["", "x"], [ROOT, [1, 1, SMALL, [], []], [2, 1, LARGE, [], []]]],
        [b"", [], ["", "x"], [ROOT, [1, 1, SMALL, [], []], [2, 1, SMALL, [], []]]],
    ],
    ids=[
        "keys that are numbers",
        "a place below zero",
        "values that cannot be compared",
        "no values",
        "a number that is text",
        "an unknown type",
        "siblings that overlap",
        "a set below a smaller one",
        "a set below an equal one",
    ],
)
def test_trees_of_odd_parts_are_refused(tree: list[object]) -> None:
    store = TreeStore()
    with pytest.raises(MalformedTree):
        store.load((1, 1), msgspec.msgpack.encode(tree))
    assert store.latest.version == (0, 0)


OVERLAPPING = {
    "ranges open to opposite sides": [f"x < {n}" for n in range(60)] + [f"x > {n} AND y > 1" for n in range(60)],
    "ranges that slide": [f"x BETWEEN {n} AND {n + 60}" for n in range(120)],
}


@pytest.mark.parametrize("texts", OVERLAPPING.values(), ids=OVERLAPPING.keys())
def test_a_tree_with_many_pieces_splits_new_filters_less_and_reaches_all_of_them(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing_tree, "TREE_PIECES", 200)
    monkeypatch.setattr(routing_tree, "FEW_PIECES", 4)
    tree, interests = build([Filter.parse(text) for text in texts])
    tree._check()
    snapshot = TreeSnapshot(tree, (1, 1))
    assert len(snapshot.forwarding.end_filter) < 200 + 4 * len(texts) + routing_tree.PIECES
    for x in range(-1, 182, 3):
        event = Event({"x": x, "y": x})
        wanted = {interest.key for interest in interests if interest.filter.matches(event)}
        assert wanted <= reached(snapshot, snapshot.match(event).prefix)
    assert not reached(snapshot, snapshot.match(Event({"y": 5})).prefix), "a filter that gets every event"


def test_a_tree_that_came_as_bytes_goes_on_as_the_one_that_it_is_a_copy_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing_tree, "TREE_PIECES", 100)
    monkeypatch.setattr(routing_tree, "FEW_PIECES", 3)
    texts = [f"x < {n} OR x < {n} AND y > 2" if n % 3 else f"x > {n} OR z = {n}" for n in range(60)]
    tree, interests = build([Filter.parse(text) for text in texts])
    for interest in interests[::5]:
        tree.remove(interest.key)
    again, _ = decode_tree(encode_tree(TreeSnapshot(tree, (1, 1))), 0.5)
    for one in (tree, again):
        for interest in interests[::5]:
            one.insert(interest.key, interest.paths)
        one._check()
    assert encode_tree(TreeSnapshot(again, (1, 2))) == encode_tree(TreeSnapshot(tree, (1, 2)))


def test_patterns_go_to_the_same_nodes_of_a_tree_that_came_as_bytes() -> None:
    tree, _ = build([Filter.parse(f"x LIKE '%{text}%'") for text in ("c", "b", "a")])
    again, _ = decode_tree(encode_tree(TreeSnapshot(tree, (1, 1))), 0.5)
    late = Interest(Filter.parse("x LIKE '%abc%'"))
    for one in (tree, again):
        one.insert(late.key, late.paths)
        one._check()
    assert encode_tree(TreeSnapshot(again, (1, 2))) == encode_tree(TreeSnapshot(tree, (1, 2)))
