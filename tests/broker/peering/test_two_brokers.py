"""Two brokers with a link: filters go one way, events the other, and both outlive a crash."""

from __future__ import annotations

from pathlib import Path

from tests.broker.peering.overlays import Overlay, until
from whimbrel.client import Client


def prices(client: Client, id: str) -> list[int]:
    return [message.data["price"] for message in client.pull(id, wait=0.5)]


def test_an_event_reaches_a_subscription_at_the_other_broker_through_crashes_of_both(tmp_path: Path) -> None:
    with Overlay(tmp_path, 2, [(0, 1)]) as overlay:
        first, second = overlay.brokers
        overlay.until_linked()
        with first.client(attempts=50) as here, second.client(attempts=50) as there:
            id = there.create("data.price < 5")["id"]
            overlay.until_filters([1, 1])
            here.publish([{"price": 3}, {"price": 9}])
            until(lambda: prices(there, id) == [3])
            assert first.links()["b1"]["events_out"] == 1

            second.kill()
            here.publish([{"price": 2}, {"price": 8}])  # the filter of b1 is known, and its events wait
            second.start()
            until(lambda: prices(there, id) == [3, 2])

            first.kill()
            first.start()
            overlay.until_linked()
            assert first.overlay()["routing"]["filters"] == 1
            here.publish([{"price": 1}])
            until(lambda: prices(there, id) == [3, 2, 1])
            there.delete(id)
            overlay.until_filters([0, 0])
