"""Links between places: over TLS, between tenants, and with a peer that was away longer than the log is kept."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from tests.broker.certificates import make_certificates
from tests.broker.peering.overlays import Overlay, OverlayBroker, until
from whimbrel.broker.peering.log_feed import LogFeed
from whimbrel.client import Client
from whimbrel.log import LogReader


def numbers(client: Client, id: str) -> list[int]:
    return [message.data["n"] for message in client.pull(id, limit=1000)]


def test_a_peer_with_a_certificate_of_a_private_authority(tmp_path: Path) -> None:
    files = make_certificates(tmp_path / "certificates")
    second = OverlayBroker(tmp_path / "b1", "b1", **files.settings)
    first = OverlayBroker(tmp_path / "b0", "b0")
    first.dial(second)
    with second, second.client(ca=files.authority) as there:
        with first:
            trouble = until(lambda: first.overlay()["troubles"].get(second.url))
            assert "certificate" in trouble and first.links() == {}
        first.settings["peer_ca"] = str(files.authority)
        with first, first.client() as here:
            until(lambda: first.links().get("b1", {}).get("connected"))
            id = there.create("data.n >= 0")["id"]
            until(lambda: first.overlay()["routing"]["filters"] == 1)
            here.publish([{"n": 1}, {"n": -1}])
            until(lambda: numbers(there, id) == [1])


def tenants_in(broker: OverlayBroker) -> list[str]:
    """The tenant of every event in a broker's log."""
    with LogReader(Path(broker.settings["data"]) / "log") as log:
        return [event.tenant for event in LogFeed(log, log.floor).events(log.rows(*log.bounds))]


def test_events_of_two_tenants_with_one_id_stay_two_and_keep_their_tenants(tmp_path: Path) -> None:
    """A tenant separates ids of events, and a link does not mix them. A peer's token with a tenant stands for it."""
    event = {"specversion": "1.0", "id": "same", "source": "s", "type": "t", "data": {"n": 1}}
    overlay = Overlay(tmp_path, 2, [(0, 1)], optimizer=None)
    first, second = overlay.brokers
    with second, ExitStack() as open_now:
        open_now.enter_context(first)
        overlay.until_linked()
        there = open_now.enter_context(second.client())
        id = there.create("data.n = 1")["id"]
        overlay.until_filters([1, 1])
        for name in ("acme", "umbrella", ""):
            token = first.new_token(name or "nobody", ["publish"], tenant=name)
            with Client(first.url, token) as here:
                assert [one.duplicate for one in here.publish([event, event])] == [False, True]
        until(lambda: numbers(there, id) == [1, 1, 1])
        (again,) = there.publish([event])  # by a publisher that has changed its broker: it is known here
        assert again.duplicate and numbers(there, id) == [1, 1, 1]
        assert tenants_in(second) == ["acme", "umbrella", ""]

        first.stop()
        first.settings["peer_tokens"] = [second.new_token("partner", ["peer"], tenant="partner")]
        first.start()
        until(lambda: second.links().get("b0", {}).get("connected"))
        with first.client() as here:
            here.publish([{**event, "id": "later"}])
        until(lambda: numbers(there, id) == [1, 1, 1, 1])
        assert tenants_in(second)[-1] == "partner"


def gauge(broker: OverlayBroker, name: str) -> int:
    lines = broker.get("/metrics").text.splitlines()
    return int(float(next(line for line in lines if line.startswith(f"{name} ")).split()[1]))


def all_numbers(client: Client, id: str) -> list[int]:
    """The numbers of all messages, however many there are."""
    found: list[int] = []
    after: str | int = -1
    while page := client.pull(id, after=after, limit=1000):
        found += [message.data["n"] for message in page]
        after = page[-1].cursor
    return found


def test_a_peer_that_was_away_longer_than_the_log_is_kept_gets_what_is_left(tmp_path: Path) -> None:
    overlay = Overlay(tmp_path, 2, [(0, 1)], optimizer=None)
    first, second = overlay.brokers
    first.settings |= {"retention_seconds": 0.0, "retention_bytes": 60_000}
    with overlay, first.client() as here:
        overlay.until_linked()
        with second.client() as there:
            id = there.create("data.n >= 0")["id"]
            overlay.until_filters([1, 1])
            here.publish([{"n": 0}])
            until(lambda: numbers(there, id) == [0])
        second.stop()
        cursor = first.links()["b1"]["cursor"]
        for start in range(1, 2_001, 100):
            here.publish([{"n": number, "text": "x" * 200} for number in range(start, start + 100)])

        until(lambda: gauge(first, "whimbrel_log_floor_offset") > cursor + 100)
        until(lambda: gauge(first, "whimbrel_log_bytes") <= 60_000)  # nothing more is deleted while the peer reads
        second.start()
        with second.client() as there:
            until(lambda: first.links()["b1"]["connected"] and first.links()["b1"]["lag"] == 0)
            got = all_numbers(there, id)
        missed = first.links()["b1"]["missed_entries"]
        assert missed > 0 and got[0] == 0 and got[1:] == list(range(got[1], 2_001)) and got[1] > 1
        told = first.get("/metrics").text
        assert f'whimbrel_link_missed_entries_total{{peer="b1"}} {float(missed)}' in told
        with second.client() as there:  # and what comes next comes as ever
            here.publish([{"n": 3_000}])
            until(lambda: all_numbers(there, id)[-1] == 3_000)
