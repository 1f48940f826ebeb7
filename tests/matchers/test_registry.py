"""Every matcher has the role of the model, and says where it comes from."""

from __future__ import annotations

import pytest

from whimbrel import Index
from whimbrel.matchers import MATCHERS, BaseMatcher, make
from whimbrel.matchers.option_checks import UnknownMatcher
from whimbrel.matchers.papers import Paper
from whimbrel.model.matcher import Matcher


def roles(matcher: BaseMatcher, index: Index) -> tuple[Matcher, Matcher]:
    """Never called: mypy checks here that every matcher of the papers has the role, and the engine's index too."""
    return matcher, index


@pytest.mark.parametrize("name", MATCHERS)
def test_a_matcher_has_the_role(name: str) -> None:
    matcher: Matcher = make(name)
    matcher.add_many([(1, "a = 1"), (2, "a = 1 AND b = 0")])
    assert matcher.match({"a": 1, "b": 1}) == [1]
    assert str(matcher.explain(2, {"a": 1, "b": 1})).startswith("no match")
    assert [miss.id for miss in matcher.near_misses({"a": 1, "b": 1})] == [2]
    assert matcher.attributes() == {"a", "b"}


@pytest.mark.parametrize("name", MATCHERS)
def test_a_matcher_names_its_paper(name: str) -> None:
    matcher = MATCHERS[name]
    assert matcher.name == name
    assert isinstance(matcher.paper, Paper) and matcher.section
    assert matcher.paper.title in str(matcher.paper)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownMatcher, match=r"Expected a matcher of compiled_naive, .*, but got 'best'"):
        make("best")
