"""SGIM: the rule for the number of groups, what the group index decides, and regrouping."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import interval_sets, values
from whimbrel.matchers import make
from whimbrel.matchers.sgim.predicate_groups import PredicateTable, group_count
from whimbrel.matchers.sgim.sgim import Sgim
from whimbrel.matchers.shared.option_checks import MatcherOptionError
from whimbrel.model.filter import Filter
from whimbrel.model.values import NUMBER

GROUPINGS = ["equal_width", "dynamic"]


def filled(filters: list[str], **options: object) -> Sgim:
    matcher = make("sgim", **options)
    assert isinstance(matcher, Sgim)
    for id, text in enumerate(filters):
        matcher.add(id, text)
    matcher._check()
    return matcher


def sizes(matcher: Sgim, attribute: str) -> list[int]:
    return [len(group) for group in matcher._tables[attribute].classes[NUMBER].groups]


def test_classes_of_the_narrowest_width_take_the_farthest_predicate() -> None:
    matcher = filled([*(f"a = {number}e-323" for number in range(5)), "a = 1e300"])
    assert [matcher.match({"a": value}) for value in (0, 3e-323, 1e300)] == [[0], [3], [5]]


@given(st.integers(1, 1 << 40))
def test_k_groups_are_the_fewest_with_two_to_the_k_at_least_n(n: int) -> None:
    k = group_count(n)
    assert (1 << k) >= n and (k == 1 or (1 << (k - 1)) < n)


def test_equal_widths_follow_the_values_and_dynamic_groups_the_frequencies() -> None:
    skewed = [f"a = {2**i}" for i in range(17)]
    equal, dynamic = (filled(skewed, grouping=grouping) for grouping in GROUPINGS)
    assert max(sizes(equal, "a")) > 8
    assert max(sizes(dynamic, "a")) <= 8
    for value in (1, 300, 2**16, 7):
        assert equal.match({"a": value}) == dynamic.match({"a": value})
    assert dynamic.stats()["predicate_evaluations"] < equal.stats()["predicate_evaluations"]


def test_a_group_is_deleted_or_chosen_without_looking_at_its_predicates() -> None:
    low = [f"a BETWEEN {i} AND {100 + i}" for i in range(4)]
    high = [f"a BETWEEN {1000 + i} AND {1100 + i}" for i in range(4)]
    matcher = filled(low + high, grouping="dynamic")
    matcher._tables["a"].classes[NUMBER]._regroup()
    assert matcher.match({"a": 50}) == [0, 1, 2, 3]
    stats = matcher.stats()
    assert stats["groups_chosen"] >= 1 and stats["groups_deleted"] >= 1
    assert stats["predicate_evaluations"] < 8


def test_a_group_of_many_conjunctions_is_deleted_64_at_a_time() -> None:
    matcher = Sgim()
    for number in range(100):
        matcher.add(number, f"x BETWEEN {1_000 + number} AND {1_001 + number}")
    assert matcher.match({"x": 0}) == []
    stats = matcher.stats()
    assert (stats["groups"], stats["groups_deleted"], stats["marks_of_deleted"]) == (6, 6, 6 * 2)
    assert matcher.match({}) == []  # a missing attribute deletes all of its groups
    assert matcher.stats()["marks_of_deleted"] == 2 * 6 * 2
    assert matcher.match({"x": 1_050}) == [49, 50]
    for number in range(0, 100, 2):
        matcher.remove(number)
    assert matcher.match({"x": 1_050}) == [49]
    matcher._check()


def test_predicates_of_subscriptions_that_are_ruled_out_are_skipped() -> None:
    matcher = filled(["a = 1 AND b > 0", "a = 1 AND b > 5", "a = 2 AND b > 7", "a = 2 AND b > 9"])
    assert matcher.match({"a": 2, "b": 8}) == [2]
    assert int(matcher.stats()["predicates_skipped"]) > 0
    before = matcher.stats()
    assert matcher.match({"b": 8}) == []  # a is missing, which rules all out before b is looked at
    after = matcher.stats()
    assert after["predicate_evaluations"] == before["predicate_evaluations"]


def test_a_predicate_is_stored_once_for_all_that_share_it() -> None:
    matcher = filled([f"a = 1 AND b = {i}" for i in range(10)])
    assert matcher.stats()["predicates"] == 11
    assert len(matcher._tables["a"].predicates) == 1


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_groups_are_made_anew_as_the_predicates_grow_and_shrink(grouping: str) -> None:
    matcher = filled([f"a < {i}" for i in range(200)], grouping=grouping)
    assert group_count(100) <= len(sizes(matcher, "a")) <= group_count(200)
    for id in range(190):
        matcher.remove(id)
    matcher._check()
    assert len(sizes(matcher, "a")) <= group_count(20)


def test_the_index_shrinks_when_a_predicate_at_its_end_goes() -> None:
    matcher = filled(["a <= 1", "a <= 5", "a <= 9"])
    assert matcher.match({"a": 7}) == [2]
    matcher.remove(2)
    assert matcher.match({"a": 7}) == []
    assert int(matcher.stats()["groups_deleted"]) > 0


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_invariants_hold_under_random_adds_and_removes(grouping: str) -> None:
    rng = random.Random(7)
    matcher = filled([], grouping=grouping)
    held: dict[int, Filter] = {}
    for step in range(500):
        if held and rng.random() < 0.45:
            id = rng.choice(list(held))
            matcher.remove(id)
            del held[id]
        else:
            terms = [f"{name} {rng.choice(['=', '<', '>=', '!='])} {rng.randint(0, 30)}" for name in "abc"]
            held[step] = Filter.parse(" AND ".join(rng.sample(terms, rng.randint(1, 3))))
            matcher.add(step, held[step])
        if step % 25 == 0:
            matcher._check()
            event = {name: [rng.randint(0, 30), rng.randint(0, 30)] for name in rng.sample("abc", 2)}
            assert matcher.match(event) == [id for id, filter in held.items() if filter.matches(event)]


@given(st.lists(interval_sets(), max_size=20), st.booleans(), st.data())
def test_any_sets_of_values_can_be_grouped_and_taken_out_again(
    sets: list[object], dynamic: bool, data: st.DataObject
) -> None:
    table = PredicateTable(dynamic)
    kept = {interval_set: slot for slot, interval_set in enumerate(sets) if interval_set}
    for interval_set, slot in kept.items():
        table.add(interval_set, slot)  # type: ignore[arg-type]
    table.check()
    for interval_set in data.draw(st.permutations(list(kept))):
        table.remove(interval_set, kept[interval_set])  # type: ignore[arg-type]
        table.check()
    assert not table.predicates and not table.groups() and not table.rest


@given(st.lists(values, min_size=1, max_size=3))
def test_several_values_satisfy_a_predicate_if_one_does(held: list[object]) -> None:
    texts = ["a < 2", "a >= 2 AND a < 5", "a = 'a'", "a != 1", "a = TRUE", "a IN (0, 'b', 5)"]
    matcher = filled(texts)
    event = {"a": held}
    assert matcher.match(event) == [id for id, text in enumerate(texts) if Filter.parse(text).matches(event)]


def test_an_unknown_grouping_is_a_typed_error() -> None:
    with pytest.raises(MatcherOptionError, match="equal_width, dynamic"):
        make("sgim", grouping="sturges")


def test_work_is_not_counted_when_counting_is_off() -> None:
    matcher = filled(["a = 1", "a = 2"], count=False)
    assert matcher.match({"a": 1}) == [0]
    assert not matcher.stats().keys() & {"groups_deleted", "groups_evaluated", "predicate_evaluations"}
