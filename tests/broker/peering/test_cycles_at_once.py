"""Links that are made at the same moment and would close a cycle: one of them ends, nobody hangs, events come once."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.broker.peering.overlays import Overlay, OverlayBroker, until

ATTEMPTS = [0, *(pytest.param(attempt, marks=pytest.mark.soak) for attempt in range(1, 15))]


def connected(broker: OverlayBroker) -> set[str]:
    return {name for name, link in broker.links().items() if link["connected"]}


def check_events_come_once(overlay: Overlay) -> None:
    """Publish at every broker; every broker has everything once."""
    count = len(overlay.brokers)
    with ExitStack() as stack:
        clients = [stack.enter_context(broker.client()) for broker in overlay.brokers]
        ids = [client.create("data.n >= 0")["id"] for client in clients]
        overlay.until_peers_told(1)
        for number, client in enumerate(clients):
            client.publish([{"n": number}, {"n": number + count}])
        for client, id in zip(clients, ids, strict=True):
            until(lambda client=client, id=id: len(client.pull(id, wait=0.1)) >= 2 * count)
            assert sorted(message.data["n"] for message in client.pull(id)) == list(range(2 * count))


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_three_brokers_that_dial_in_a_ring(tmp_path: Path, attempt: int) -> None:
    with Overlay(tmp_path, 3, [(0, 1), (1, 2), (2, 0)]) as overlay:
        until(lambda: sum(len(connected(broker)) for broker in overlay.brokers) == 4)
        refused = until(lambda: [trouble for one in overlay.brokers for trouble in one.overlay()["troubles"].values()])
        assert all("closes no cycle" in trouble for trouble in refused)
        check_events_come_once(overlay)
        assert sum(len(connected(broker)) for broker in overlay.brokers) == 4
        assert all(len(broker.overlay()["topology"]["links"]) == 2 for broker in overlay.brokers)


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_two_brokers_that_dial_each_other(tmp_path: Path, attempt: int) -> None:
    with Overlay(tmp_path, 2, [(0, 1), (1, 0)]) as overlay:
        until(lambda: all(len(connected(broker)) == 1 for broker in overlay.brokers))
        check_events_come_once(overlay)
        assert [len(broker.links()) for broker in overlay.brokers] == [1, 1]
        refused = until(lambda: [trouble for one in overlay.brokers for trouble in one.overlay()["troubles"].values()])
        assert all("one link" in trouble for trouble in refused)
