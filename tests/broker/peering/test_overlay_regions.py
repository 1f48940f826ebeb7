"""What peers tell of the overlay: its links form a tree, however many they tell."""

from __future__ import annotations

from itertools import pairwise
from unittest.mock import patch

from whimbrel.broker.peering.overlay_regions import topology_of
from whimbrel.overlay.topology import Topology

IDS = [f"{number:032x}" for number in range(10_001)]


def test_the_youngest_link_of_a_cycle_closes_it() -> None:
    a, b, c = IDS[:3]
    topology, closing = topology_of([(c, a, 3), (a, b, 1), (b, c, 2), (b, a, 9)])
    assert closing == [(a, c, 3)]
    assert topology.path(a, c) == [a, b, c]


def test_no_path_is_searched_among_ten_thousand_links_of_a_peer() -> None:
    edges = [(one, two, since) for since, (one, two) in enumerate(pairwise(IDS))]
    with patch.object(Topology, "path", side_effect=AssertionError):
        topology, closing = topology_of([*edges, (IDS[0], IDS[-1], 1 << 40), (IDS[7], IDS[99], 1 << 41)])
    assert [edge[2] for edge in closing] == [1 << 40, 1 << 41]
    assert topology.path(IDS[3], IDS[5]) == IDS[3:6]
