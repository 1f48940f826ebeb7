"""What a neighbour may send without breaking a router."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whimbrel.model.errors import LimitExceeded
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.overlay.covering import cover_relation
from whimbrel.overlay.covering.cover_table import CoverTable
from whimbrel.overlay.router import router as router_module
from whimbrel.overlay.router.prefix_router import PrefixRouter
from whimbrel.overlay.router.router import ROUTER_LINKS
from whimbrel.overlay.router.router_messages import Announce, Subscribe, TreeRequest, TreeUpdate, WholeTree
from whimbrel.overlay.tree.paths import PATHS, Interest, paths_of
from whimbrel.overlay.tree.prefix import LARGEST_NUMBER
from whimbrel.overlay.tree.tree_bytes import chained, encode_changes


def a_router() -> PrefixRouter:
    router = PrefixRouter("b")
    router.link("a")
    router.link("c")
    return router


def interest(text: str) -> Interest:
    return Interest(Filter.parse(text))


def test_a_filter_with_too_many_conjunctions_gets_every_event_and_is_not_compared() -> None:
    text = " OR ".join(f"(a{n} = {n} AND b{n} = {n})" for n in range(PATHS + 1))
    assert paths_of(Filter.parse(text)) == ((),)
    table = CoverTable()
    table.add(interest(text))
    table.add(interest(text + " OR z = 1"))
    assert cover_relation._COMPARED < (PATHS + 1) ** 2
    for one in (interest(text), interest(text + " OR z = 1")):
        assert table.find(one.key, lambda _: True) is None
        assert not table.relation.covering(one.key)


def test_a_long_list_is_widened_to_the_interval_around_it() -> None:
    members = ", ".join(str(2 * n) for n in range(200))
    ((path,),) = paths_of(Filter.parse(f"x IN ({members})"))
    assert len(path[1].values.cuts) == 2
    assert all((1, 2 * n) in path[1].values for n in range(200))


def test_a_neighbour_has_a_limited_number_of_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = replace(router_module.NEIGHBOUR_FILTERS, value=2)
    monkeypatch.setattr(router_module, "NEIGHBOUR_FILTERS", limit)
    router = a_router()
    for number in range(4):
        router.handle("a", Subscribe(interest(f"x = {number}")))
    assert len(router.interests) == 2
    assert router.counters.refused_filters == 2
    assert [name for name, _ in router.publish(Event({"x": 1})).sent] == ["a"]


def test_a_router_has_a_limited_number_of_links() -> None:
    router = PrefixRouter("b")
    for number in range(ROUTER_LINKS.value):
        router.link(f"n{number}")
    with pytest.raises(LimitExceeded, match="links of a router"):
        router.link("one more")
    router.unlink("n7")
    router.link("one more")


def test_updates_of_unknown_trees_and_malformed_trees_change_nothing() -> None:
    router = a_router()
    router.handle("a", Announce(1, "z", (0, 0)))
    later = TreeUpdate((1, 5), (1, 4), (interest("x = 1"),), b"digest")
    assert ("a", TreeRequest((1, 5))) in router.handle("a", later).sent
    wrong = TreeUpdate((1, 1), (0, 0), (interest("x = 1"),), b"digest")
    assert not any(isinstance(sent, TreeRequest) for _, sent in router.handle("a", wrong).sent)  # one is on its way
    router.handle("a", WholeTree((1, 5), b"\xc1 no tree"))
    assert ("a", TreeRequest((1, 1))) in router.handle("a", wrong).sent
    assert router.version == (0, 0)
    assert router.counters.malformed == 1


def test_no_announcement_drives_epochs_beyond_what_messages_hold() -> None:
    router = a_router()
    router.optimize(0.0)
    told = router.handle("a", Announce(LARGEST_NUMBER, "z", (0, 0))).sent
    assert {message.epoch for _, message in told if isinstance(message, Announce)} == {LARGEST_NUMBER}
    router.subscribe("s", interest("x = 1"), 0.0)
    assert [id for id, _ in router.publish(Event({"x": 1})).delivered] == ["s"]


def test_removing_what_is_not_there_and_inserting_twice_is_no_harm() -> None:
    router = a_router()
    one = interest("x = 1")
    changes = (b"0123456789abcdef", one, one, b"0123456789abcdef")
    update = TreeUpdate((1, 1), (0, 0), changes, chained(b"", encode_changes(changes)))
    router.handle("a", update)
    assert router.version == (1, 1)
    view = router.view((1, 1))
    assert view is not None and view.snapshot.keys == [one.key]
