"""Constraints: their algebra against generated sets of values, under every pick that a binding can make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import one_attribute, value_sets
from whimbrel.model import expression as x
from whimbrel.model.constraint import NULL_KEY, UNCONSTRAINED, Constraint, unite
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import ALL, EMPTY, STRINGS, IntervalSet, compare_set
from whimbrel.model.normal_form import key_of
from whimbrel.model.patterns import Cidr, Substring, Suffix
from whimbrel.model.values import SortKey, Value

ONE, TWO = key_of(1), key_of(2)
samples = st.lists(value_sets, min_size=1, max_size=6)


def keys(values: Sequence[Value | None]) -> tuple[SortKey, ...]:
    return tuple(dict.fromkeys(NULL_KEY if value is None else key_of(value) for value in values))


def of(expression: x.Expression) -> list[Constraint]:
    """The constraints on a of the conjunctions."""
    return [dict(c.constraints).get("a", UNCONSTRAINED) for c in Filter(expression).conjunctions]


def single(expression: x.Expression) -> Constraint:
    (constraint,) = of(expression)
    return constraint


def holds(constraint: Constraint, members: tuple[SortKey, ...], pick: SortKey | None) -> bool:
    """Whether it holds on a set of values under one pick; None where there is no value to pick."""
    if not constraint.admits_members(members):
        return False
    return pick is None or not constraint.bound or constraint.admits_value(pick)


def situations(lists: list[list[Any]]) -> list[tuple[tuple[SortKey, ...], SortKey | None]]:
    out: list[tuple[tuple[SortKey, ...], SortKey | None]] = []
    for values in lists:
        members = keys(values)
        picks = [key for key in members if key != NULL_KEY]
        out += ((members, pick) for pick in picks or [None])
    return out


@given(one_attribute, one_attribute, samples)
def test_an_intersection_holds_where_both_do(left: x.Expression, right: x.Expression, lists: list[list[Any]]) -> None:
    for one in of(left):
        for two in of(right):
            both = one.intersect(two)
            assert both == two.intersect(one)
            for members, pick in situations(lists):
                assert holds(both, members, pick) == (holds(one, members, pick) and holds(two, members, pick))


@given(st.lists(one_attribute, max_size=3), samples, st.randoms(use_true_random=False))
def test_united_constraints_hold_where_one_of_them_does(
    expressions: list[x.Expression], lists: list[list[Any]], random: Any
) -> None:
    parts = [constraint for expression in expressions for constraint in of(expression)]
    united = unite(parts)
    shuffled = list(parts)
    random.shuffle(shuffled)
    assert unite(shuffled) == united
    for members, pick in situations(lists):
        assert any(holds(c, members, pick) for c in united) == any(holds(c, members, pick) for c in parts)


@given(one_attribute, one_attribute, samples)
def test_covers_and_coexists_are_never_wrong(left: x.Expression, right: x.Expression, lists: list[list[Any]]) -> None:
    for one in of(left):
        for two in of(right):
            covers, coexists = one.covers(two), one.coexists(two)
            for members, pick in situations(lists):
                first, second = holds(one, members, pick), holds(two, members, pick)
                assert first or not (covers and second)
                assert coexists or not (one.admits(members) and two.admits(members))


@given(one_attribute, samples)
def test_a_constraint_admits_a_set_iff_some_pick_satisfies_it(expression: x.Expression, lists: list[list[Any]]) -> None:
    for constraint in of(expression):
        assert constraint.covers(constraint)
        assert constraint.intersect(constraint) == constraint
        for values in lists:
            picks = [pick for _, pick in situations([values])]
            found = any(holds(constraint, keys(values), pick) for pick in picks)
            assert constraint.admits(keys(values)) == found
            assert not (found and constraint.is_empty())
            assert found or not constraint.is_anything()


def test_patterns_are_decided_where_the_values_are_points() -> None:
    points = IntervalSet.points(map(key_of, ("ab", "cb", 5)))
    assert Constraint.of(points, include=[Suffix("b")]).values.as_points() == [key_of("ab"), key_of("cb")]
    kept = Constraint.of(points, exclude=[Suffix("ab")])
    assert kept.values.as_points() == [key_of(5), key_of("cb")]
    assert kept.is_plain


def test_an_excluded_pattern_says_nothing_about_numbers() -> None:
    assert Constraint.of(compare_set("<", ONE), exclude=[Suffix("x")]).is_plain


def test_a_pattern_that_another_implies_is_dropped() -> None:
    assert Constraint.of(ALL, include=[Suffix("b"), Suffix("ab")]).include == (Suffix("ab"),)
    assert Constraint.of(ALL, exclude=[Suffix("b"), Suffix("ab")]).exclude == (Suffix("b"),)
    assert Constraint.of(ALL, include=[Suffix("ab")], exclude=[Suffix("b")]).is_empty()


def test_many_patterns_are_kept_as_they_are() -> None:
    many = Constraint.of(ALL, exclude=[Substring(f"{i:04}") for i in range(300)] + [Substring("0")])
    assert len(many.exclude) == 301


def test_a_required_group_that_holds_another_is_dropped() -> None:
    constraint = single(x.And((x.Contains("a", "ANY", (1, 2, 3)), x.Contains("a", "ANY", (1, 2)))))
    assert constraint.required == frozenset([frozenset([ONE, TWO])])


def test_what_is_required_and_forbidden_contradicts() -> None:
    assert of(x.And((x.Contains("a", "ANY", (1,)), x.Contains("a", "NONE", (1,))))) == []
    assert of(x.And((x.Compare("a", "=", 1), x.Contains("a", "NONE", (1, 2))))) == []
    left = single(x.And((x.Contains("a", "ANY", (1, 2)), x.Contains("a", "NONE", (1,)))))
    assert left.required == frozenset([frozenset([TWO])])


def test_a_picked_point_is_a_member() -> None:
    assert single(x.Contains("a", "ANY", (1, 2))).covers(single(x.Compare("a", "=", 1)))
    assert not single(x.Contains("a", "ALL", (1, 2))).covers(single(x.Compare("a", "=", 1)))


def test_covering_looks_at_patterns() -> None:
    inside, outside = Constraint.of(STRINGS, include=[Suffix("ab")]), Constraint.of(STRINGS, include=[Suffix("b")])
    assert outside.covers(inside)
    assert not inside.covers(outside)
    assert Constraint.of(ALL, exclude=[Cidr("10.0.0.0/16")]).covers(Constraint.of(ALL, exclude=[Cidr("10.0.0.0/8")]))
    assert Constraint.of(ALL, exclude=[Suffix("x")]).covers(Constraint.of(compare_set("<", ONE)))
    assert not Constraint.of(ALL, exclude=[Suffix("x")]).covers(Constraint.of(STRINGS))


def test_states_coexist_only_with_the_same_state() -> None:
    missing, null = single(x.IsMissing("a")), single(x.And((x.IsNull("a"), x.Not(x.IsMissing("a")))))
    assert missing.coexists(single(x.IsNull("a")))
    assert not missing.coexists(null)
    assert not missing.coexists(single(x.Compare("a", "=", 1)))
    assert missing.intersect(null).is_empty()


def test_two_values_coexist_in_one_list_but_not_in_one_binding() -> None:
    one, two = single(x.Compare("a", "=", 1)), single(x.Compare("a", "=", 2))
    assert one.coexists(two)
    assert one.intersect(two).is_empty()


def test_nothing_covers_less() -> None:
    nothing = Constraint(values=EMPTY)
    assert nothing.is_empty()
    assert UNCONSTRAINED.is_anything()
    assert UNCONSTRAINED.covers(nothing)
    assert not nothing.covers(UNCONSTRAINED)
    assert unite([]) == [nothing]


def test_constraints_of_all_kinds_have_one_order() -> None:
    some = [single(e) for e in (x.Compare("a", "=", 1), x.IsNull("a"), x.Contains("a", "ANY", (1, None)))]
    order = [some[i] for i in (1, 2, 0)]
    assert sorted(some, key=lambda c: c.sort_key) == order
