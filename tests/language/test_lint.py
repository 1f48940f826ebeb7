"""The rules of lint."""

from __future__ import annotations

import pytest

from whimbrel import Filter
from whimbrel.language.lint import lint_filter, lint_together


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("a = 1", []),
        ("a > 5 AND a < 3", ["unsatisfiable"]),
        ("a = 1 OR TRUE", ["always-true"]),
        ('a = "x"', ["suspicious-name"]),
        ('"a" = 1', []),
        ('a = "x" AND FALSE', ["unsatisfiable", "suspicious-name"]),
    ],
)
def test_a_filter_is_judged_alone(text: str, rules: list[str]) -> None:
    assert [remark.rule for remark in lint_filter(Filter.parse(text))] == rules


def test_a_filter_without_text_has_no_suspicious_names() -> None:
    assert lint_filter(Filter(Filter.parse('a = "x"').expression)) == []


def test_filters_are_judged_beside_each_other() -> None:
    texts = ["a < 9", "a < 5", "a < 9", "FALSE", "TRUE", "b = 1"]
    found = [(place, remark.rule, remark.other) for place, remark in lint_together([Filter.parse(t) for t in texts])]
    assert found == [(2, "duplicate", 0), (1, "covered", 0)]


def test_progress_is_told_every_thousand() -> None:
    told: list[int] = []
    assert list(lint_together([Filter.parse(f"a = {n}") for n in range(2_001)], told.append)) == []
    assert told == [1_000, 2_000]
