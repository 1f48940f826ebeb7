"""A router that lacks a version asks for a tree once, however many updates it cannot apply."""

from __future__ import annotations

import pytest

from whimbrel.model.filter import Filter
from whimbrel.overlay.router import prefix_router
from whimbrel.overlay.router.optimizer import OptimizerSettings
from whimbrel.overlay.router.prefix_router import PrefixRouter, PrefixSettings
from whimbrel.overlay.router.router_messages import Announce, Message, Subscribe, TreeRequest, TreeUpdate, WholeTree
from whimbrel.overlay.simulation.network import Network
from whimbrel.overlay.simulation.scenario import Scenario, ScenarioOptions
from whimbrel.overlay.simulation.simulate import Simulation
from whimbrel.overlay.tree.paths import Interest


def optimizer_with(count: int) -> tuple[PrefixRouter, list[TreeUpdate]]:
    """An optimizer that publishes a version for every filter, and its updates."""
    router = PrefixRouter("o", PrefixSettings(optimizer=OptimizerSettings(trigger=0.0)))
    router.link("r")
    router.optimize(0.0)
    updates: list[TreeUpdate] = []
    for number in range(count):
        effects = router.subscribe(f"s{number}", Interest(Filter.parse(f"x = {number}")), float(number))
        updates += [message for _, message in effects.sent if isinstance(message, TreeUpdate)]
    return router, updates


def follower() -> PrefixRouter:
    router = PrefixRouter("r")
    router.link("o")
    router.handle("o", Announce(1, "o", (0, 0)))
    return router


def requests(router: PrefixRouter, message: Message) -> list[TreeRequest]:
    return [sent for _, sent in router.handle("o", message).sent if isinstance(sent, TreeRequest)]


def test_many_updates_without_their_base_are_one_request() -> None:
    optimizer, updates = optimizer_with(6)
    router = follower()
    assert [requests(router, update) for update in updates[1:]] == [[TreeRequest(updates[1].version)], [], [], [], []]
    (_, whole), *_ = optimizer.handle("r", TreeRequest(updates[1].version)).sent
    assert requests(router, whole) == []
    assert router.version == optimizer.version


def test_a_tree_that_updates_have_overtaken_is_asked_for_again() -> None:
    optimizer, updates = optimizer_with(3)
    (_, old), *_ = optimizer.handle("r", TreeRequest((1, 1))).sent
    assert isinstance(old, WholeTree)
    optimizer.subscribe("late", Interest(Filter.parse("x = 9")), 9.0)
    later = optimizer_with(5)[1][-1]
    router = follower()
    assert requests(router, updates[1]) == [TreeRequest(updates[1].version)]
    assert requests(router, later) == []
    assert requests(router, old) == [TreeRequest(later.version)]


def test_a_tree_that_never_comes_or_is_none_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix_router, "UNANSWERED_UPDATES", 2)
    _, updates = optimizer_with(9)
    router = follower()
    asked = [len(requests(router, update)) for update in updates[1:]]
    assert asked == [1, 0, 0, 1, 0, 0, 1, 0]
    assert requests(router, WholeTree((1, 9), b"no tree")) == []
    assert router.counters.malformed == 1
    assert len(requests(router, updates[-1])) == 1
    assert len(requests(router, Announce(1, "o", (1, 9)))) == 1  # the link was made again


def test_filters_that_come_at_once_ask_every_router_for_one_tree_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    plain = Network._send

    def send(network: Network, pair: tuple[str, str], item: tuple[Message, int]) -> None:
        nonlocal asked
        asked += isinstance(item[0], TreeRequest)
        plain(network, pair, item)

    monkeypatch.setattr(Network, "_send", send)
    scenario = Scenario(ScenarioOptions(routers=9, subscribers=3, filters=150, events=10, interval=0.0, names=30))
    report = Simulation(scenario).run("prefix").report
    assert report["false_negatives"] == 0 and report["tree_updates"] > 8
    assert asked <= 8


def test_a_filter_is_offered_to_the_optimizer_even_if_another_covers_it() -> None:
    router = follower()
    sent = [
        message
        for text in ("x > 1", "x > 2")
        for _, message in router.subscribe(text, Interest(Filter.parse(text))).sent
        if isinstance(message, Subscribe)
    ]
    assert len(sent) == 2


def test_ranges_that_come_from_the_narrowest_on_do_not_make_a_version_each() -> None:
    router = PrefixRouter("o")
    router.link("r")
    router.optimize(0.0)
    for number in range(700):
        router.subscribe(f"s{number}", Interest(Filter.parse(f"x < {number}")))
    assert router.counters.tree_updates < 550
    router.tick(1e6)
    view = router.view(router.version)
    assert view is not None and len(view.snapshot.keys) == 700, "what waited comes with the trigger"


def test_a_router_that_has_lost_its_link_to_the_optimizer_finds_another_way_to_it() -> None:
    router = follower()
    router.subscribe("wide", Interest(Filter.parse("x > 1")))
    router.unlink("o")
    router.link("z")
    sent = router.subscribe("narrow", Interest(Filter.parse("x > 2"))).sent
    assert not sent, "the wide one covers it"
    ((to, message),) = router.handle("z", Announce(1, "o", (0, 0))).sent
    assert isinstance(message, Subscribe) and (to, message.interest.text) == ("z", "x > 2")


def test_no_tree_is_sent_to_a_neighbour_that_has_left() -> None:
    router = follower()
    router.link("b")
    assert requests(router, Announce(1, "o", (1, 1))) == [TreeRequest((1, 1))]
    assert router.handle("b", TreeRequest((1, 1))).sent == []
    router.unlink("b")
    (update,) = optimizer_with(1)[1]
    assert router.handle("o", update).sent == [] and router.version == (1, 1)
