"""Modified RAPIDMatch: the survey's worked example, corrected, and less work on heavy events."""

from __future__ import annotations

from tests.matchers.rapid.test_rapid import ask, brute, events_with_ones, filled, population, work
from whimbrel.matchers import make

EXAMPLE = ["00111", "01101", "*11*1", "00000", "01*01", "01000", "10*01"]


def test_the_worked_example_gives_s2_s3_s5() -> None:
    # ERR-8b: the survey eliminates S7 and then reports {S2, S7}.
    for c in (None, 0, 1, 2, 4):
        matcher = filled("modified_rapid", EXAMPLE, c=c)
        assert ask(matcher, "01101") == [2, 3, 5]
        matcher._check()


def test_the_number_of_zeros_puts_a_subscription_into_the_trees_of_the_survey_s_corrected_table() -> None:
    # ERR-8c: S2 has two zeros and no *, so it is in trees for two zeros and more only. A * counts as neither.
    matcher = filled("modified_rapid", ["01101"], c=3)
    zeros_forest = matcher._trees.forests[1]
    found = [
        {slot for block in blocks for slot in matcher._trees.search(block.tree, 0b10110, 0b01001, matcher._counters)}
        for blocks in zeros_forest
    ]
    assert found == [set(), set(), {1}, {1}]


def test_light_events_cost_what_they_cost_rapid_and_heavy_events_less() -> None:
    subscriptions = population(30, 1_000, seed=4, ones=0.5)
    rapid, modified = (filled(name, subscriptions) for name in ("rapid", "modified_rapid"))
    for ones in (1, 3):
        light = events_with_ones(30, ones, 30, seed=ones)
        assert work(modified, light) == work(rapid, light) < work(rapid, light, full=True)
        heavy = events_with_ones(30, 30 - ones, 30, seed=ones)
        assert work(modified, heavy) < work(rapid, heavy) == work(rapid, heavy, full=True)
        for event in heavy[:5]:
            assert ask(modified, event) == brute(subscriptions, event)
    assert modified.stats()["zeros_searches"] == modified.stats()["ones_searches"] + 10


def test_half_the_properties_cover_every_complete_event() -> None:
    subscriptions = population(10, 200, seed=5)
    matcher = filled("modified_rapid", subscriptions, c=5)
    for number in range(0, 1 << 10, 7):
        event = f"{number:010b}"
        assert ask(matcher, event) == brute(subscriptions, event)
    assert matcher.stats()["full_searches"] == 0


def test_it_holds_two_forests_where_rapid_holds_one() -> None:
    matchers = [make(name, c=2) for name in ("rapid", "modified_rapid")]
    for matcher in matchers:
        matcher.add(1, "a = 1 AND b = 0 AND c = 1")
    assert [matcher.stats()["trees"] for matcher in matchers] == [7, 13]
