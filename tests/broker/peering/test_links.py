"""What becomes of links: chains, late joiners, cycles, cuts, tokens, restored brokers, and links that end."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from tests.broker.peering.flapping import Passage
from tests.broker.peering.overlays import Overlay, OverlayBroker, until
from tests.broker.processes import free_port
from whimbrel.broker.backup.restoring import renew
from whimbrel.cli.main import app
from whimbrel.client import Client


def numbers(client: Client, id: str) -> list[int]:
    return [message.data["n"] for message in client.pull(id, limit=1000)]


def test_a_chain_forwards_by_prefix_and_filters_that_are_covered_stay_behind(tmp_path: Path) -> None:
    with Overlay(tmp_path, 3, [(0, 1), (2, 1)], optimizer=1) as overlay:
        first, middle, last = overlay.brokers
        overlay.until_linked()
        with first.client() as here, last.client() as there:
            wide, narrow = there.create("data.n < 50")["id"], there.create("data.n < 10")["id"]
            stream = iter(there.subscribe(filter="data.n = 77"))
            ended = threading.Thread(target=lambda: next(stream), daemon=True)
            ended.start()
            overlay.until_filters([2, 3, 3])  # b0 is not told of the narrow one
            until(lambda: all(one.overlay()["routing"]["tree_filters"] == 3 for one in overlay.brokers))
            here.publish([{"n": number} for number in (5, 20, 60, 77)])
            until(lambda: (numbers(there, wide), numbers(there, narrow)) == ([5, 20], [5]))
            ended.join(20)
            assert not ended.is_alive()
        routing = [one.overlay()["routing"] for one in overlay.brokers]
        assert [one["content_matches"] for one in routing] == [4, 0, 0]
        assert [one["fallbacks"] for one in routing] == [0, 0, 0]
        assert middle.links()["b0"]["events_in"] == 3
        assert routing[2]["false_positives"] == 0
        assert {tuple(one["topology"]["brokers"].values()) for one in map(OverlayBroker.overlay, overlay.brokers)}
        topologies = [one.overlay()["topology"]["links"] for one in overlay.brokers]
        assert topologies[0] == topologies[1] == topologies[2] and len(topologies[0]) == 2


def test_a_route_is_explained_drawn_and_counted(tmp_path: Path) -> None:
    with Overlay(tmp_path, 3, [(0, 1), (2, 1)], optimizer=1) as overlay:
        first, middle, last = overlay.brokers
        overlay.until_linked()
        with last.client() as there:
            id = there.create("data.price < 5 AND data.kind RLIKE 'a.c'")["id"]
        overlay.until_filters([1, 1, 1])
        until(lambda: all(one.overlay()["routing"]["tree_filters"] == 1 for one in overlay.brokers))
        command = [
            "overlay",
            "trace",
            '{"data": {"price": 3, "kind": "abc"}}',
            "--url",
            first.url,
            "--token",
            first.root,
        ]
        shown = CliRunner().invoke(app, command)
        assert shown.exit_code == 0, shown.output
        filter = "data.kind RLIKE 'a.c' AND data.price < 5"
        assert shown.output.splitlines() == [
            "b0: published; matched, 2 nodes",
            f"  -> b1: node 2 (data.kind LIKE '%' / data.price < 5), filter {filter}",
            "b1: from b0; prefix read, 2 nodes",
            f"  -> b2: node 2 (data.kind LIKE '%' / data.price < 5), filter {filter}",
            "b2: from b1; prefix read, 2 nodes",
            f"  delivered to {id}: {filter}",
        ]
        with first.client() as here:
            here.publish([{"price": 3, "kind": "xyz"}, {"price": 9, "kind": "abc"}, {"price": 1, "kind": "abc"}])
        until(lambda: last.overlay()["routing"]["false_positives"] == 1)
        drawn = middle.get("/overlay.svg")
        assert drawn.headers["content-type"] == "image/svg+xml"
        ElementTree.fromstring(drawn.text)
        assert drawn.text.count("<circle") == 3 and drawn.text.count(">2</text>") == 2
        told = middle.get("/metrics").text
        assert 'whimbrel_link_events_in_total{peer="b0"} 2.0' in told
        assert 'whimbrel_link_connected{peer="b2"} 1.0' in told
        assert "whimbrel_router_fallbacks_total 0.0" in told


def test_a_late_joiner_gets_what_is_published_from_then_on(tmp_path: Path) -> None:
    with Overlay(tmp_path, 2, [(0, 1)]) as overlay:
        overlay.until_linked()
        third = OverlayBroker(tmp_path / "b2", "b2")
        third.dial(overlay.brokers[1])
        with overlay.brokers[0].client() as here:
            here.publish([{"n": 1}])
            with third, third.client() as there:
                until(lambda: "b1" in third.links())
                id = there.create("data.n < 9")["id"]
                overlay.until_filters([1, 1])
                here.publish([{"n": 2}])
                until(lambda: numbers(there, id) == [2])
                version = overlay.brokers[0].overlay()["routing"]["version"]
                until(lambda: third.overlay()["routing"]["version"] == version)
                third.kill()


def test_a_link_that_closes_a_cycle_is_refused_with_the_path(tmp_path: Path) -> None:
    with Overlay(tmp_path, 3, [(0, 1), (1, 2)]) as overlay:
        overlay.until_linked()
        first, _, last = overlay.brokers
        until(lambda: len(last.overlay()["topology"]["links"]) == 2)
        last.stop()
        last.dial(first)
        last.start()
        trouble = until(lambda: last.overlay()["troubles"].get(first.url))
        assert "closes no cycle" in trouble
        assert [name in trouble for name in ("b0 (", "b1 (", "b2 (")] == [True] * 3
        overlay.until_linked()  # the others stay


def test_a_link_that_flaps_loses_nothing_and_repeats_nothing(tmp_path: Path) -> None:
    overlay = Overlay(tmp_path, 2, [(0, 1)])
    first, second = overlay.brokers
    with Passage(second.settings["port"]) as passage:
        first.settings["peers"] = [passage.url]
        with overlay, first.client() as here, second.client() as there:
            overlay.until_linked()
            id = there.create("data.n >= 0")["id"]
            overlay.until_filters([1, 1])
            for number in range(60):
                here.publish([{"n": 2 * number}, {"n": 2 * number + 1}])
                if number % 6 == 5:
                    passage.cut()
            until(lambda: numbers(there, id) == list(range(120)))
            assert first.links()["b1"]["connects"] > 1

            passage.is_shut = True
            passage.cut()
            until(lambda: not first.links()["b1"]["connected"])
            extra, _ = [there.create(f"data.n = {number}")["id"] for number in (-7, -8)]  # while nobody hears it
            there.delete(id)
            passage.is_shut = False
            overlay.until_filters([2, 2])
            here.publish([{"n": -7}, {"n": 1}])
            until(lambda: numbers(there, extra) == [-7])


def test_a_token_with_rules_lets_only_such_events_pass_and_a_revoked_one_ends_the_link(tmp_path: Path) -> None:
    overlay = Overlay(tmp_path, 2, [(0, 1)], optimizer=None)
    first, second = overlay.brokers
    with second, ExitStack() as open_now:
        first.settings["peer_tokens"] = [second.new_token("acme", ["peer"], rules={"data.tenant": "acme"})]
        open_now.enter_context(first)
        here, there = open_now.enter_context(first.client()), open_now.enter_context(second.client())
        until(lambda: second.links().get("b0", {}).get("connected"))
        mine, theirs = here.create("data.n < 5")["id"], there.create("data.n < 5")["id"]
        overlay.until_peers_told(1)
        overlay.until_filters([1, 2])  # at b0 both are the same, at b1 its filter has the rules
        both = [{"n": 1, "tenant": "acme"}, {"n": 2, "tenant": "other"}]
        here.publish(both)
        until(lambda: numbers(there, theirs) == [1])
        there.publish(both)
        until(lambda: numbers(here, mine) == [1, 2, 1])
        assert numbers(there, theirs) == [1, 1, 2]
        assert second.links()["b0"]["refused_events"] == 1  # from b0, against the rules
        assert second.delete("/tokens/acme") == 204
        until(lambda: second.links() == {})
        until(lambda: "401" in first.overlay()["troubles"].get(second.url, ""))
        until(lambda: second.overlay()["routing"]["filters"] == 1)


def test_a_broker_with_another_id_of_its_log_takes_up_its_links(tmp_path: Path) -> None:
    """As after a restore from a backup: what is new under old offsets is taken for new."""
    with Overlay(tmp_path, 2, [(0, 1)]) as overlay:
        first, second = overlay.brokers
        overlay.until_linked()
        with second.client() as there:
            id = there.create("data.n >= 0")["id"]
            overlay.until_filters([1, 1])
            with first.client() as here:
                here.publish([{"n": 1}, {"n": 2}])
            until(lambda: numbers(there, id) == [1, 2])
            former = first.overlay()["id"]
            first.stop()
            renew(Path(first.settings["data"]))
            first.start()
            until(lambda: second.links()["b0"]["connected"] and first.links()["b1"]["connected"])
            assert [link["peer"] for link in second.overlay()["links"]] == [first.overlay()["id"]] != [former]
            overlay.until_filters([1, 1])
            with first.client() as here:
                here.publish([{"n": 3}])
            until(lambda: numbers(there, id) == [1, 2, 3])


def test_a_link_is_ended_by_an_admin_or_by_settings_that_no_longer_name_it(tmp_path: Path) -> None:
    with Overlay(tmp_path, 2, [(0, 1)]) as overlay:
        first, second = overlay.brokers
        overlay.until_linked()
        with second.client() as there:
            there.create("data.n >= 0")
            overlay.until_filters([1, 1])
        assert first.delete("/overlay/links/nobody") == 404
        first.stop()
        first.dial()
        first.start()
        until(lambda: first.overlay()["links"] == [])
        peer = second.overlay()["links"][0]["peer"]
        assert second.delete(f"/overlay/links/{peer}") == 204
        assert second.overlay()["links"] == []
        assert len(second.overlay()["topology"]["links"]) == 0


def test_settings_of_peers_are_checked(tmp_path: Path) -> None:
    from whimbrel.broker.requests.settings import BadSettings, load_settings

    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(BadSettings, match="one of peer_tokens for each of 2 peers"):
        load_settings({"peers": [url, url + "1"], "peer_tokens": ["a", "b", "c"]}, {})
    with pytest.raises(BadSettings, match="the address of a peer"):
        load_settings({"peers": ["ftp://x"], "peer_tokens": ["a"]}, {})
    assert load_settings({}, {"WHIMBREL_PEERS": f"{url},{url}", "WHIMBREL_PEER_TOKENS": "a"}).tokens_of_peers() == [
        "a",
        "a",
    ]
