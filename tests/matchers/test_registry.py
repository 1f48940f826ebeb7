"""Every matcher has a name, and says where it comes from."""

from __future__ import annotations

import pytest

from whimbrel.matchers import MATCHERS, make
from whimbrel.matchers.shared.option_checks import UnknownMatcher
from whimbrel.matchers.shared.papers import Paper


@pytest.mark.parametrize("name", MATCHERS)
def test_a_matcher_names_its_paper(name: str) -> None:
    matcher = MATCHERS[name]
    assert matcher.name == name
    assert isinstance(matcher.paper, Paper) and matcher.section
    assert matcher.paper.title in str(matcher.paper)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownMatcher, match=r"Expected a matcher of compiled_naive, .*, but got 'best'"):
        make("best")
