"""Claims are predicates on measures: they hold, fail, or say that they could not be tested."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.lab.harness.claims import (
    Outcome,
    growth,
    limit,
    linear,
    log_slope,
    order,
    ratio,
    saving,
    slope,
    untestable,
    verdict_of,
)
from whimbrel.lab.harness.measures import Measures, Row


def measures(**series: dict[float, float]) -> Measures:
    return Measures(
        Row(name, "time", value).to_dict({"n": n}) for name, curve in series.items() for n, value in curve.items()
    )


class TestOrder:
    def test_holds_at_nine_of_ten_points(self) -> None:
        slow = dict.fromkeys(range(10), 2.0)
        assert order("", "time", "a", "b").test(measures(a={**dict.fromkeys(range(10), 1.0), 3: 5.0}, b=slow)).holds

    def test_fails_at_eight_of_ten_points(self) -> None:
        fast = {**dict.fromkeys(range(10), 1.0), 3: 5.0, 4: 5.0}
        outcome = order("", "time", "a", "b").test(measures(a=fast, b=dict.fromkeys(range(10), 2.0)))
        assert outcome.holds is False
        assert "8 of 10" in outcome.found

    def test_compares_only_points_that_both_have(self) -> None:
        assert order("", "time", "a", "b").test(measures(a={1: 1.0}, b={2: 5.0})).holds is None

    def test_looks_only_at_the_points_it_is_told_to(self) -> None:
        claim = order("", "time", "a", "b", where=lambda row: row["n"] > 5)
        assert claim.test(measures(a={1: 9.0, 10: 1.0}, b={1: 1.0, 10: 2.0})).holds


class TestRatio:
    @pytest.mark.parametrize(("top", "holds"), [(0.21, True), (0.79, True), (0.19, False), (0.81, False)])
    def test_holds_within_a_factor_of_two(self, top: float, holds: bool) -> None:
        assert ratio("", "time", "a", "b", 0.4).test(measures(a={1: top}, b={1: 1.0})).holds is holds

    def test_has_an_infinite_ratio_over_nothing(self) -> None:
        assert ratio("", "time", "a", "b", 2).test(measures(a={1: 1.0}, b={1: 0.0})).holds is False

    def test_growth_compares_the_ends_of_a_curve(self) -> None:
        assert growth("", "time", "a", "n", 4).test(measures(a={1: 1.0, 50: 90.0, 100: 4.5})).holds
        assert growth("", "time", "a", "n", 4).test(measures(a={1: 1.0})).holds is None


class TestSlope:
    @given(st.floats(-2, 2), st.floats(0.1, 100))
    def test_finds_the_exponent_of_a_power(self, exponent: float, factor: float) -> None:
        curve = {n: factor * n**exponent for n in (1.0, 10.0, 300.0, 1000.0)}
        assert log_slope(list(curve.items())) == pytest.approx(exponent, abs=1e-4)
        assert slope("", "time", "a", "n", exponent).test(measures(a=curve)).holds
        assert slope("", "time", "a", "n", exponent - 0.3).test(measures(a=curve)).holds is False

    def test_at_most_takes_anything_below(self) -> None:
        curve = {1: 5.0, 100: 5.0}
        assert slope("", "time", "a", "n", 0.8, at_most=True).test(measures(a=curve)).holds

    def test_cannot_be_tested_on_one_point(self) -> None:
        assert slope("", "time", "a", "n", 1).test(measures(a={1: 5.0})).holds is None


@pytest.mark.parametrize(("less", "holds"), [(0.96, False), (0.89, True), (0.61, True), (0.55, False), (1.1, False)])
def test_a_saving_is_compared_as_a_share(less: float, holds: bool) -> None:
    claim = saving("", "time", "a", "b", 0.2)
    assert claim.test(measures(a={1: less}, b={1: 1.0})).holds is holds
    assert claim.test(measures()).holds is None


def test_expectations_of_our_own_are_told_apart() -> None:
    assert untestable("Ours: fast", "").is_ours
    assert not untestable("Fast", "").is_ours


def test_a_limit_holds_at_nine_of_ten_points() -> None:
    values = dict.fromkeys(range(9), 1.0) | {9: 5.0}
    assert limit("", "time", "a", 2).test(measures(a=values)).holds
    assert limit("", "time", "a", 2).test(measures(a=values | {8: 3.0})).holds is False


def test_a_straight_line_is_one_with_a_high_correlation() -> None:
    assert linear("", "time", "a", "n").test(measures(a={1: 12.0, 2: 14.0, 3: 16.1})).holds
    assert linear("", "time", "a", "n").test(measures(a={1: 12.0, 2: 3.0, 3: 11.0})).holds is False
    assert linear("", "time", "a", "n").test(measures(a={1: 1.0, 2: 1.0, 3: 1.0})).holds is None


def test_an_untestable_claim_says_why() -> None:
    assert untestable("x", "needs a Pentium").test(measures()) == Outcome(None, "needs a Pentium")


@given(st.lists(st.sampled_from([True, False, None])))
def test_verdicts_follow_from_the_outcomes(held: list[bool | None]) -> None:
    verdict = verdict_of([Outcome(one, "") for one in held])
    if all(one is None for one in held):
        assert verdict == "untestable"
    elif all(held):
        assert verdict == "reproduced"
    else:
        assert verdict == ("partly" if any(held) else "not")
