"""A prefix is read in one step as it is when it is decoded first, and wrong bytes are refused."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from whimbrel.model.event import Event
from whimbrel.overlay.simulation.paper_workload import Distribution, PaperWorkload
from whimbrel.overlay.tree.paths import Interest
from whimbrel.overlay.tree.prefix import Prefix
from whimbrel.overlay.tree.routing_tree import RoutingTree
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot


@pytest.fixture(scope="module")
def snapshot() -> TreeSnapshot:
    tree = RoutingTree()
    workload = PaperWorkload(Distribution.PARETO, 5, names=20)
    for interest in {one.key: one for one in (Interest(workload.filter()) for _ in range(200))}.values():
        tree.insert(interest.key, interest.paths)
    return TreeSnapshot(tree, (300, 70_000), b"digest of this tree")


def test_one_step_finds_what_two_find(snapshot: TreeSnapshot) -> None:
    workload, chance = PaperWorkload(Distribution.PARETO, 6, names=20), Random(3)
    found = 0
    for _ in range(300):
        coded = snapshot.match(Event(workload.event())).prefix.encode()
        masks = np.array([chance.choice((0, 0, 0, 2, 4, 6)) for _ in snapshot.keys], np.int64)
        for wanted in (2, 4, 6, 14):
            one_step = snapshot.forward_coded(coded, masks, wanted)
            assert one_step == snapshot.forward(Prefix.decode(coded), masks, wanted)
            found += bool(one_step and one_step[0])
    assert found > 100


def test_a_prefix_with_a_limit_or_of_another_tree_takes_two_steps(snapshot: TreeSnapshot) -> None:
    masks = np.zeros(len(snapshot.keys), np.int64)
    event = Event(PaperWorkload(Distribution.PARETO, 6, names=20).event())
    assert snapshot.forward_coded(snapshot.match(event, 1).prefix.encode(), masks, 2) is None
    coded = snapshot.match(event).prefix.encode()
    assert snapshot.forward_coded(coded, masks, 2) is not None
    assert snapshot.forward_coded(coded[:1] + b"????" + coded[5:], masks, 2) is None
    assert snapshot.forward_coded(b"", masks, 2) is None


def test_wrong_bytes_are_refused_or_name_nodes_of_the_tree(snapshot: TreeSnapshot) -> None:
    workload, chance = PaperWorkload(Distribution.PARETO, 8, names=20), Random(4)
    masks = np.zeros(len(snapshot.keys), np.int64)  # nothing is found, so everything is read
    refused = 0
    for _ in range(300):
        coded = bytearray(snapshot.match(Event(workload.event())).prefix.encode())
        for _ in range(chance.randrange(1, 4)):
            coded[chance.randrange(10, len(coded))] = chance.randrange(256)
        data = bytes(coded[: chance.randrange(10, len(coded) + 1)])
        read = snapshot.forward_coded(data, masks, 2)
        refused += read is None
    assert refused > 50
    head = snapshot.match(Event({})).prefix.encode()[:-2]
    assert snapshot.forward_coded(head + b"\x01\x00\xff\xff\xff\xff\x07", masks, 2) is None  # no such node
    assert snapshot.forward_coded(head + b"\xff\xff\x7f\x00", masks, 2) is None  # too many
    assert snapshot.forward_coded(head + b"\x02\x00\x01\x00", masks, 2) is None  # not increasing
