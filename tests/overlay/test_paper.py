"""Examples of the paper, and its errors as named cases.

Z. Jerzak, C. Fetzer: Prefix Forwarding for Publish/Subscribe, DEBS 2007. They are rebuilt from a digest of the paper,
not from its tables and figures: the constraints and the splits are those that the digest quotes, the rest of each
tree is ours. Of figure 4 the digest gives the prefix {0, 2} at depth 1 and the false positive x > 5 AND y < 3. Trees
are equivalent to the paper's, not the same node for node: a node here holds a set of values, so `x > 3 AND x < 6` is
one node.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.overlay.siena_filters import siena_filter
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.overlay.covering.cover_table import CoverTable
from whimbrel.overlay.router.prefix_router import PrefixRouter, PrefixSettings
from whimbrel.overlay.router.router import UnexpectedMessage
from whimbrel.overlay.router.router_messages import Forwarded, Subscribe, Unsubscribe
from whimbrel.overlay.simulation.network import Network
from whimbrel.overlay.topology import Topology
from whimbrel.overlay.tree.paths import Interest, paths_of
from whimbrel.overlay.tree.prefix import Prefix
from whimbrel.overlay.tree.routing_tree import Node, RoutingTree
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot


def shown(node: Node) -> dict[str, object]:
    """A tree as nested dicts: what a node tests, and `ends` for the filters that end there."""
    out: dict[str, object] = {}
    for child in node.children():
        below = shown(child)
        if child.ends:
            below["ends"] = sorted(map(str, child.ends))
        out[text_of(child)] = below
    return out


def text_of(node: Node) -> str:
    for text in ("> 5", "<= 5", "< 9", "> 6", "<= 6", "> 1", "< 3", "= 2", "> 4", "> 3", "!= 5", "< 7", ">= 9", "= 5"):
        if Filter.parse(f"v {text}").conjunctions[0].by_attribute["v"].values == node.values:
            return f"{node.attribute} {text}"
    return f"{node.attribute} {node.values.cuts}"


def tree_of(*texts: str) -> RoutingTree:
    tree = RoutingTree()
    for text in texts:
        tree.insert(text, paths_of(Filter.parse(text)))
        tree._check()
    return tree


@pytest.mark.parametrize(
    ("constraints", "normal"),
    [
        ([("x", ">", 5), ("x", ">", 2), ("y", ">", 3)], "x > 5 AND y > 3"),
        ([("z", "=", 9), ("z", "<", 10), ("z", ">", 2)], "z = 9"),
        ([("x", "any", None), ("x", "<", 4)], "x < 4"),
        ([("x", ">", 5), ("x", "<", 3)], "FALSE"),
    ],
)
def test_normalisation_of_quoted_filters(constraints: list[tuple[str, str, int | None]], normal: str) -> None:
    assert siena_filter(constraints) == Filter.parse(normal)


@pytest.mark.parametrize(
    ("one", "two", "covers", "splits"),
    [
        ("x > 3", "x > 4", True, False),
        ("x > 4", "x > 3", False, False),
        ("x > 5", "x < 9", False, True),
        ("x > 1", "x <= 6", False, True),
        ("x != 5", "x > 5", True, False),
        ("x != 5", "x < 9", False, True),
        ("x > 5", "x < 3", False, False),
    ],
)
def test_relations_of_two_constraints(one: str, two: str, covers: bool, splits: bool) -> None:
    assert Filter.parse(one).covers(Filter.parse(two)) == covers
    tree = tree_of(one, two)
    assert len(tree._where[two]) == (2 if splits else 1)


def test_insertions_that_split() -> None:
    """x < 9 meets x > 5: what they share goes below it, x <= 5 stays beside it. A wider x > 1 takes what it covers."""
    tree = tree_of("x > 5 AND y < 3", "x < 9")
    first = shown(tree.root)
    assert list(first) == ["x <= 5", "x > 5"]
    below = first["x > 5"]
    assert isinstance(below, dict) and len(below) == 2
    assert sorted(name.split()[0] for name in below) == ["x", "y"]
    assert len(tree._where["x < 9"]) == 2
    tree.insert("x > 4", paths_of(Filter.parse("x > 4")))
    tree._check()
    assert len(tree._where["x > 4"]) == 2  # a part of x <= 5 below it, and x > 5, which is there
    assert shown(tree.root)["x > 5"]["ends"] == ["x > 4"]  # type: ignore[index]


def test_a_new_constraint_takes_all_that_it_covers() -> None:
    """ERR-22b: the listing moves only the last of them."""
    tree = tree_of("x = 2", "x = 5", "x < 7")
    assert list(shown(tree.root)) == ["x < 7"]
    assert set(shown(tree.root)["x < 7"]) == {"x = 2", "x = 5", "ends"}  # type: ignore[call-overload]


def test_a_split_leaves_no_dead_path() -> None:
    """ERR-22c: x < 9 AND x > 7 lies in x > 5 as a whole."""
    tree = tree_of("x > 5", "x < 9 AND x > 7")
    assert len(tree._where["x < 9 AND x > 7"]) == 1
    assert list(shown(tree.root)) == ["x > 5"]


def test_values_of_other_types_survive_a_split() -> None:
    """ERR-22h: x != 5 holds for 'abc', which neither x < 9 nor x >= 9 does."""
    tree, interests = (
        RoutingTree(),
        [Interest(Filter.parse(text)) for text in ("x < 9", "x != 5", "s < 'abc'", "s LIKE 'ab%'")],
    )
    for interest in interests:
        tree.insert(interest.key, interest.paths)
    tree._check()
    snapshot = TreeSnapshot(tree, (1, 1))
    for content in ({"x": "abc"}, {"x": 5}, {"x": 12}, {"s": "abb"}, {"s": "abd"}, {"s": "a"}):
        event = Event(content)
        found, _ = snapshot.filters(snapshot.match(event).prefix, np.ones(len(snapshot.keys), np.int64), 1)
        assert set(found) == {interest.key for interest in interests if interest.filter.matches(event)}


def children_of(snapshot: TreeSnapshot, prefix: Prefix, node: int = 0) -> set[int]:
    """The places among their siblings of the nodes of a prefix below a node: the paper's numbers."""
    return {place for place, child in enumerate(snapshot.children(node)) if child in prefix.nodes}


def test_figure_4_at_depth_1() -> None:
    """The prefix is {0, 2}, counted in order of insertion, and the cut costs a false positive: x > 5 AND y < 3."""
    tree, interests = (
        RoutingTree(),
        {text: Interest(Filter.parse(text)) for text in ("x > 5 AND y < 3", "x <= 5", "y > 3")},
    )
    for interest in interests.values():
        tree.insert(interest.key, interest.paths)
    snapshot = TreeSnapshot(tree, (1, 1))
    names = [text_of(node) for node in tree.root.children()]
    order = [names.index("x > 5"), names.index("x <= 5"), snapshot.children(0).index(len(snapshot) - 1)]
    event = Event({"x": 7, "y": 4})
    cut = snapshot.match(event, limit=1).prefix
    assert {order.index(place) for place in children_of(snapshot, cut)} == {0, 2}
    masks = np.ones(len(snapshot.keys), np.int64)
    reached = set(snapshot.filters(cut, masks, 1)[0])
    assert reached == {interests["x > 5 AND y < 3"].key, interests["y > 3"].key}
    whole = snapshot.match(event).prefix
    assert set(snapshot.filters(whole, masks, 1)[0]) == {interests["y > 3"].key}


def test_only_truncated_nodes_stand_for_what_is_below_them() -> None:
    """ERR-22e: expanding the last node of every branch would reach filters that the event does not match."""
    tree = RoutingTree()
    narrow, wide = Interest(Filter.parse("x > 5 AND y < 3")), Interest(Filter.parse("x > 5"))
    for interest in (narrow, wide):
        tree.insert(interest.key, interest.paths)
    snapshot = TreeSnapshot(tree, (1, 1))
    prefix = snapshot.match(Event({"x": 7, "y": 4})).prefix
    assert snapshot.filters(prefix, np.ones(2, np.int64), 1)[0] == [wide.key]


def test_a_filter_that_adds_no_child_of_the_root_still_travels() -> None:
    """ERR-22g: after x > 5 AND y < 3, x > 5 AND z = 2 makes no new child of the root, and is not covered."""
    topology = Topology()
    topology.link("a", "b")
    routers = {name: PrefixRouter(name) for name in "ab"}
    network = Network(topology, routers, seed=1)
    network.optimize("a")
    network.subscribe("b", "first", Interest(Filter.parse("x > 5 AND y < 3")))
    network.subscribe("b", "second", Interest(Filter.parse("x > 5 AND z = 2")))
    network.subscribe("b", "third", Interest(Filter.parse("x > 6 AND z = 2")))
    network.run()
    network.publish("a", {"x": 7, "z": 2})
    network.run()
    assert set(network.history.events[-1].deliveries) == {"second", "third"}
    assert len(routers["a"].interests) == 3  # the optimizer gets all of them


def test_a_covered_filter_does_not_travel_but_comes_when_its_cover_ends() -> None:
    topology = Topology()
    topology.link("a", "b")
    routers = {name: PrefixRouter(name, PrefixSettings(), CoverTable()) for name in "ab"}
    network = Network(topology, routers, seed=1)
    network.subscribe("b", "wide", Interest(Filter.parse("x > 1")))
    network.subscribe("b", "narrow", Interest(Filter.parse("x > 2")))
    network.run()
    assert len(routers["a"].interests) == 1
    assert routers["b"].counters.suppressed_filters == 1
    network.unsubscribe("b", "wide")
    network.run()
    assert list(routers["a"].interests) == [Interest(Filter.parse("x > 2")).key]


def test_the_prefix_is_read_without_a_match() -> None:
    """The event is matched where it is published; the others only read the prefix."""
    topology = Topology()
    for pair in ("ab", "bc", "cd"):
        topology.link(*pair)
    routers = {name: PrefixRouter(name) for name in "abcd"}
    network = Network(topology, routers, seed=1)
    network.optimize("a")
    network.subscribe("d", "one", Interest(Filter.parse("x > 5 AND y < 3")))
    network.run()
    network.publish("a", {"x": 7, "y": 2})
    network.run()
    assert [router.counters.content_matches for router in routers.values()] == [1, 0, 0, 0]
    assert [router.counters.fallbacks for router in routers.values()] == [0, 0, 0, 0]
    assert network.history.events[0].deliveries == {"one": 1}


def test_a_prefix_that_cannot_be_read_is_replaced_by_a_match() -> None:
    router = PrefixRouter("b")
    router.link("a")
    router.link("c")
    router.handle("c", Subscribe(Interest(Filter.parse("x > 5"))))
    good = PrefixRouter("a").match(Event({"x": 7})).encode()
    unknown = Prefix((9, 9), b"\0\0\0\0", None, np.array([1], np.int32)).encode()
    other = Prefix((0, 0), b"\1\1\1\1", None, np.empty(0, np.int32)).encode()  # of the same version, but another tree
    wrong = Prefix((0, 0), b"\0\0\0\0", None, np.array([5], np.int32)).encode()
    for offset, (data, malformed, fallbacks) in enumerate(
        [(good, 0, 0), (unknown, 0, 1), (wrong, 1, 2), (b"", 2, 3), (b"\1" + b"\xff" * 70_000, 3, 4), (other, 3, 5)], 1
    ):
        effects = router.handle("a", Forwarded("a", offset, Event({"x": 7}), data))
        assert [neighbour for neighbour, _ in effects.sent] == ["c"]
        assert router.counters.malformed == malformed
        assert router.counters.fallbacks == fallbacks
    with pytest.raises(UnexpectedMessage, match="got Unsubscribe from 'z'"):
        router.handle("z", Unsubscribe(b"key"))
    assert router.handle("a", Unsubscribe(b"key")).sent == []
    assert router.handle("a", Forwarded("a", 3, Event({"x": 7}), good)).sent == []
    assert router.counters.repeated == 1
