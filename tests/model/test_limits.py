"""Limits: each has a name, a value, a unit and a reason, and says so when it is passed."""

from __future__ import annotations

from pathlib import Path

import pytest

from whimbrel import Filter
from whimbrel.model import limits
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.limits import Limit

LIMITS = [value for value in vars(limits).values() if isinstance(value, Limit)]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_a_limit_is_complete_and_raises_just_above_its_value(limit: Limit) -> None:
    assert limit.name and limit.unit and limit.reason
    limit.check(limit.value)
    with pytest.raises(LimitExceeded) as caught:
        limit.check(limit.value + 1, "here")
    error = caught.value
    assert (error.limit, error.size, error.maximum) == (limit.name, limit.value + 1, limit.value)
    assert (error.unit, error.where) == (limit.unit, "here")


def test_every_limit_has_its_own_name() -> None:
    assert len({limit.name for limit in LIMITS}) == len(LIMITS)


def test_the_documentation_lists_every_limit() -> None:
    page = (Path(__file__).parents[2] / "docs" / "semantics.md").read_text(encoding="utf-8")
    rows = [f"| {limit.name} | {limit.value:,} | {limit.unit} | {limit.reason} |" for limit in LIMITS]
    assert "\n".join(rows) in page


def test_a_filter_of_too_many_conjunctions_is_refused_when_it_is_parsed() -> None:
    text = " AND ".join(f"(a{i} = 1 OR b{i} = 1)" for i in range(11))
    with pytest.raises(LimitExceeded, match="1,024 conjunctions"):
        Filter.parse(text)
