"""Claims as predicates on a table of measures: an order, a ratio, a slope, a limit, a straight line.

An order must hold at 90 % of the points, a ratio within a factor of 2, a log-log slope within 0.2. A claim without a
point to test it on neither holds nor fails. Absolute times of old machines are never claims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log
from statistics import correlation, median
from typing import Literal

from whimbrel.lab.harness.measures import Measures, Where

SHARE = 0.9
"""The share of points at which an order must hold."""
FACTOR = 2.0
"""How far a ratio may be from the claimed one, either way."""
SLOPE = 0.2
"""How far a log-log slope may be from the claimed one, either way."""
STRAIGHT = 0.9
"""The least correlation of what a claim calls linear."""

BELOW_LINEAR = 0.8
"""The largest log-log slope of what a claim calls less than linear; set after a first run, as papers give no number."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a claim holds, None if it could not be tested; and the numbers."""

    holds: bool | None
    found: str


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim in words, and its test. A text that begins with "Ours:" is no claim of a paper."""

    text: str
    test: Callable[[Measures], Outcome]

    @property
    def is_ours(self) -> bool:
        """Whether it is an expectation of this project: it does not count for the verdict on a paper."""
        return self.text.startswith("Ours:")


UNTESTED = Outcome(None, "no point of this scale has what the claim compares")


def verdict_of(outcomes: Sequence[Outcome]) -> Literal["reproduced", "partly", "not", "untestable"]:
    """`reproduced` if all claims hold, `partly` if some do, `not` if none does, `untestable` if none was tested.

    >>> verdict_of([Outcome(True, ""), Outcome(None, "")])
    'partly'
    """
    if all(outcome.holds is None for outcome in outcomes):
        return "untestable"
    if all(outcome.holds for outcome in outcomes):
        return "reproduced"
    return "partly" if any(outcome.holds for outcome in outcomes) else "not"


def order(text: str, measure: str, less: str, more: str, where: Where | None = None) -> Claim:
    """`less` has the smaller value, or the same, at 90 % of the points where both were measured."""

    def test(measures: Measures) -> Outcome:
        pairs = _pairs(measures, measure, less, more, where)
        if not pairs:
            return UNTESTED
        holding = sum(left <= right for left, right in pairs)
        ratio = median(_ratio(right, left) for left, right in pairs)
        found = f"holds at {holding} of {len(pairs)} points; {more} / {less} = {figure(ratio)} in the median"
        return Outcome(holding >= SHARE * len(pairs), found)

    return Claim(text, test)


def ratio(text: str, measure: str, top: str, bottom: str, expected: float, where: Where | None = None) -> Claim:
    """The median over all points of `top` divided by `bottom` is within a factor of 2 of what is expected."""

    def test(measures: Measures) -> Outcome:
        pairs = _pairs(measures, measure, top, bottom, where)
        if not pairs:
            return UNTESTED
        return _near(median(_ratio(*pair) for pair in pairs), f"{top} / {bottom}", expected)

    return Claim(text, test)


def saving(text: str, measure: str, less: str, more: str, expected: float) -> Claim:
    """The share that `less` saves of `more`, the median over all points, is within a factor of 2 of the claimed one."""

    def test(measures: Measures) -> Outcome:
        pairs = _pairs(measures, measure, less, more)
        if not pairs:
            return UNTESTED
        found = 1 - median(_ratio(*pair) for pair in pairs)
        holds = expected / FACTOR <= found <= expected * FACTOR
        return Outcome(holds, f"{less} saves {found:.0%} of {more}; expected {expected:.0%}, within {FACTOR:.0f} x")

    return Claim(text, test)


def growth(text: str, measure: str, series: str, along: str, expected: float, where: Where | None = None) -> Claim:
    """The value at the largest coordinate divided by that at the smallest is within a factor of 2 of `expected`."""

    def test(measures: Measures) -> Outcome:
        curve = measures.curve(measure, series, along, where)
        if len(curve) < 2:
            return UNTESTED
        (first, low), (last, high) = curve[0], curve[-1]
        what = f"{series}: from {along} = {figure(first)} to {figure(last)} it grows"
        return _near(_ratio(high, low), what, expected)

    return Claim(text, test)


def slope(
    text: str,
    measure: str,
    series: str,
    along: str,
    expected: float,
    where: Where | None = None,
    at_most: bool = False,
) -> Claim:
    """The log-log slope over a coordinate is within 0.2 of what is expected; with `at_most`, no more than that."""

    def test(measures: Measures) -> Outcome:
        curve = [pair for pair in measures.curve(measure, series, along, where) if min(pair) > 0]
        found = log_slope(curve)
        if found is None:
            return UNTESTED
        holds = found <= expected if at_most else abs(found - expected) <= SLOPE
        bound = f"at most {expected:.2f}" if at_most else f"{expected:.2f}, within {SLOPE}"
        return Outcome(holds, f"slope {found:.2f} of {series} over {along}; expected {bound}")

    return Claim(text, test)


def below_linear(text: str, measure: str, series: str) -> Claim:
    """The log-log slope over n is at most `BELOW_LINEAR`; the claim says that this limit is no paper's."""
    note = f" (slope of {BELOW_LINEAR} at most, which was set after a first run)"
    return slope(text + note, measure, series, "n", BELOW_LINEAR, at_most=True)


def limit(text: str, measure: str, series: str, most: float, where: Where | None = None) -> Claim:
    """The value is at most `most` at 90 % of the points."""

    def test(measures: Measures) -> Outcome:
        values = list(measures.values(measure, series, where).values())
        if not values:
            return UNTESTED
        holding = sum(value <= most for value in values)
        found = f"{holding} of {len(values)} points at most {figure(most)}; the largest is {figure(max(values))}"
        return Outcome(holding >= SHARE * len(values), found)

    return Claim(text, test)


def linear(text: str, measure: str, series: str, along: str) -> Claim:
    """The value lies on a rising straight line over a coordinate: the correlation is at least 0.9."""

    def test(measures: Measures) -> Outcome:
        curve = measures.curve(measure, series, along)
        if len(curve) < 3 or len({y for _, y in curve}) < 2 or len({x for x, _ in curve}) < 2:
            return UNTESTED
        found = correlation([x for x, _ in curve], [y for _, y in curve])
        return Outcome(
            found >= STRAIGHT, f"correlation {found:.3f} of {series} with {along}; expected {STRAIGHT} or more"
        )

    return Claim(text, test)


def untestable(text: str, reason: str) -> Claim:
    """A claim that cannot be tested here; the reason is what was found."""
    return Claim(text, lambda measures: Outcome(None, reason))


def log_slope(curve: Sequence[tuple[float, float]]) -> float | None:
    """The least-squares slope of log y over log x; None with fewer than two different x.

    >>> log_slope([(1, 2), (10, 200)])
    2.0
    """
    xs, ys = [log(x) for x, _ in curve], [log(y) for _, y in curve]
    if len(set(xs)) < 2:
        return None
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return round(above / sum((x - x_mean) ** 2 for x in xs), 6)


def figure(value: float) -> str:
    """A number with three digits that matter, thousands apart."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _pairs(
    measures: Measures, measure: str, left: str, right: str, where: Where | None = None
) -> list[tuple[float, float]]:
    """The values of two series at the points where both were measured."""
    lefts, rights = measures.values(measure, left, where), measures.values(measure, right, where)
    return [(value, rights[place]) for place, value in lefts.items() if place in rights]


def _near(found: float, what: str, expected: float) -> Outcome:
    holds = expected / FACTOR <= found <= expected * FACTOR
    return Outcome(holds, f"{what} {figure(found)} x; expected {figure(expected)} x, within {FACTOR:.0f} x")


def _ratio(above: float, below: float) -> float:
    return above / below if below else (1.0 if above == 0 else float("inf"))
