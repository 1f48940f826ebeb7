"""RAPIDMatch: blocks and trees as in the digest, exact answers, and less work on light events."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.matchers import make
from whimbrel.matchers.rapid.forests import FULL, block_bounds
from whimbrel.matchers.rapid.rapid import Rapid
from whimbrel.matchers.shared.option_checks import MatcherOptionError
from whimbrel.model.errors import EventError, UnsupportedFilter
from whimbrel.model.subscription import Id

vectors = st.integers(1, 9).flatmap(lambda k: st.lists(st.text("01*", min_size=k, max_size=k), min_size=1, max_size=25))


def filter_of(vector: str) -> str:
    """The filter of a subscription in {0,1,*}^k over the properties p000, p001, ..."""
    return " AND ".join(f"p{i:03} = {bit}" for i, bit in enumerate(vector) if bit != "*") or "TRUE"


def filled(name: str, subscriptions: list[str], **options: object) -> Rapid:
    """A matcher of the subscriptions 1, 2, ... after number 0, which wants every property to be 1 and so fixes k."""
    matcher = make(name, **options)
    assert isinstance(matcher, Rapid)
    for id, vector in enumerate(["1" * len(subscriptions[0]), *subscriptions]):
        matcher.add(id, filter_of(vector))
    matcher.stats()  # builds the trees
    return matcher


def brute(subscriptions: list[str], event: str) -> list[int]:
    """What `filled` holds of subscriptions that agree with the event in every place."""
    return [
        id
        for id, vector in enumerate(["1" * len(event), *subscriptions])
        if all(bit in ("*", held) for bit, held in zip(vector, event, strict=True))
    ]


def ask(matcher: Rapid, event: str) -> list[Id]:
    """The answer to an event written as a text of bits."""
    return matcher.match_vector([int(bit) for bit in event])


def population(k: int, n: int, seed: int, tested: float = 0.4, ones: float = 0.3) -> list[str]:
    """Seeded subscriptions: a property is tested, and then wants a 1, with these probabilities."""
    rng = random.Random(seed)
    return [
        "".join(("1" if rng.random() < ones else "0") if rng.random() < tested else "*" for _ in range(k))
        for _ in range(n)
    ]


def events_with_ones(k: int, ones: int, n: int, seed: int) -> list[str]:
    """Seeded events with exactly that many ones."""
    rng = random.Random(seed)
    chosen = [set(rng.sample(range(k), ones)) for _ in range(n)]
    return ["".join("1" if i in held else "0" for i in range(k)) for held in chosen]


def work(matcher: Rapid, events: list[str], full: bool = False) -> int:
    """The nodes visited on all events, with the trees the matcher chooses or with the full tree."""
    before = matcher.stats()["nodes_visited"]
    for event in events:
        if full:
            ones = int(event[::-1], 2)
            matcher._trees.search(FULL, ones, ~ones & ((1 << len(event)) - 1), matcher._counters)
        else:
            ask(matcher, event)
    return int(matcher.stats()["nodes_visited"]) - int(before)


def test_blocks_are_consecutive_and_differ_by_at_most_one() -> None:
    assert list(block_bounds(7, 3)) == [(0, 3), (3, 5), (5, 7)]
    assert list(block_bounds(2, 3)) == [(0, 1), (1, 2), (2, 2)]


@given(vectors, st.data())
def test_every_vector_gets_the_brute_force_answer(subscriptions: list[str], data: st.DataObject) -> None:
    k = len(subscriptions[0])
    options = {"c": data.draw(st.integers(0, k + 1)), "leaf": data.draw(st.integers(1, 4))}
    for name in ("rapid", "modified_rapid"):
        matcher = filled(name, subscriptions, **options)
        matcher._check()
        for event in data.draw(st.lists(st.text("01", min_size=k, max_size=k), max_size=4)):
            assert ask(matcher, event) == brute(subscriptions, event)


@pytest.mark.parametrize("name", ["rapid", "modified_rapid"])
def test_invariants_hold_under_random_adds_and_removes(name: str) -> None:
    rng = random.Random(1)
    matcher = filled(name, ["*" * 8], c=3, leaf=2)
    held = {0: "1" * 8, 1: "*" * 8}
    for step in range(2, 400):
        if len(held) > 1 and rng.random() < 0.45:
            id = rng.choice(sorted(held.keys() - {0}))
            matcher.remove(id)
            del held[id]
        else:
            held[step] = population(8, 1, step)[0]
            matcher.add(step, filter_of(held[step]))
        if step % 20 == 0:
            matcher._check()
            event = population(8, 1, step, tested=1)[0]
            expected = [id for id, v in held.items() if all(b in ("*", e) for b, e in zip(v, event, strict=True))]
            assert ask(matcher, event) == expected


def test_subscriptions_are_in_every_tree_that_they_qualify_for() -> None:
    # ERR-7a and ERR-7b: the matching subscription is in both qualifying trees, and either answers.
    matcher = filled("rapid", ["00*01"], c=1)
    assert ask(matcher, "00001") == [1]
    first, second = matcher._trees.forests[0][1]
    assert [matcher._trees.nodes(block.tree) for block in (first, second)] == [1, 0]
    matcher = filled("rapid", ["00*01", "**0**"], c=4)
    sizes = [matcher._trees.nodes(block.tree) for block in matcher._trees.forests[0][4]]
    assert all(sizes)  # "**0**" has no 1 in any block


def test_light_events_visit_fewer_nodes_than_the_tree_over_all_properties() -> None:
    subscriptions = population(30, 1_000, seed=2)
    matcher = filled("rapid", subscriptions)
    for ones in (1, 2, 3):
        events = events_with_ones(30, ones, 40, seed=ones)
        for event in events[:5]:
            assert ask(matcher, event) == brute(subscriptions, event)
        assert work(matcher, events) < work(matcher, events, full=True)
    assert matcher.stats()["full_searches"] == 0


def test_an_event_outside_zero_and_one_is_answered_by_the_full_tree() -> None:
    matcher = make("rapid")
    for id, text in enumerate(["a = 1", "a = TRUE", "b = 0", "a = 0 AND b = 0", "b = FALSE"]):
        matcher.add(id, text)
    for event, found in (
        ({"a": 1}, [0]),
        ({"a": True, "b": 0}, [1, 2]),
        ({"a": 2, "b": False}, [4]),
        ({"a": [0, 1], "b": 0}, [0, 2, 3]),
        ({"a": "1", "b": None}, []),
    ):
        assert matcher.match(event) == found
    assert matcher.stats()["full_searches"] == 5
    assert matcher.stats()["properties"] == 4  # a and b, each as a number and as a boolean


def test_a_property_that_nothing_asks_for_any_more_is_forgotten() -> None:
    matcher = make("rapid")
    matcher.add(1, "a = 1")
    matcher.add(2, "b = 1")
    matcher.remove(2)
    matcher.add(3, "a = 0")
    assert matcher.match({"a": 0}) == [3]
    assert matcher.properties == (("a", "number"),)  # type: ignore[attr-defined]
    assert matcher.stats()["full_searches"] == 0


def test_bad_vectors_and_options_are_typed_errors_that_change_nothing() -> None:
    matcher = filled("rapid", ["01*"])
    for vector in ([0, 1], [0, 1, 1, 1], [0, 1, 2], ["0", "1", "1"]):
        with pytest.raises(EventError):
            matcher.match_vector(vector)  # type: ignore[arg-type]
    for options in ({"c": -1}, {"c": 64}, {"c": True}, {"c": 1.5}, {"leaf": 0}):
        with pytest.raises(MatcherOptionError):
            make("rapid", **options)
    with pytest.raises(UnsupportedFilter, match="equality with anything but 0, 1") as refusal:
        matcher.add(9, "p000 = 2")
    assert "rapid" not in refusal.value.alternatives and "naive" in refusal.value.alternatives
    assert ask(matcher, "010") == [1]
    matcher._check()


def test_more_than_64_properties_need_more_words() -> None:
    subscriptions = population(150, 400, seed=3, tested=0.05)
    matcher = filled("rapid", subscriptions)
    for event in events_with_ones(150, 4, 10, seed=1) + events_with_ones(150, 70, 10, seed=2):
        assert ask(matcher, event) == brute(subscriptions, event)
    matcher._check()


def test_work_is_not_counted_when_counting_is_off() -> None:
    matcher = make("rapid", count=False)
    matcher.add(1, "a = 1")
    assert matcher.match({"a": 1}) == [1]
    assert not matcher.stats().keys() & {"nodes_visited", "ones_searches"}
