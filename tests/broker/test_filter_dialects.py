"""The dialects of the Subscriptions API against a two-valued reading of its specification."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.broker.requests.errors import Unprocessable
from whimbrel.broker.requests.filter_dialects import subscription_filter
from whimbrel.model.expression import And
from whimbrel.model.filter import Filter

NAMES = st.sampled_from(["type", "source", "subject", "ext1"])
TEXTS = st.sampled_from(["a", "ab", "abc", "b", "5", "true", "a.b"])
LEAVES = st.sampled_from(["exact", "prefix", "suffix"]).flatmap(
    lambda dialect: st.dictionaries(NAMES, TEXTS, min_size=1, max_size=2).map(lambda pairs: {dialect: pairs})
)
FILTERS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).flatmap(lambda some: st.sampled_from([{"all": some}, {"any": some}]))
        | inner.map(lambda one: {"not": one})
    ),
    max_leaves=6,
)
EVENTS = st.dictionaries(NAMES, TEXTS | st.integers(4, 6) | st.booleans())


def text_of(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def holds(item: dict[str, Any], event: dict[str, Any]) -> bool:
    ((dialect, content),) = item.items()
    if dialect == "not":
        return not holds(content, event)
    if dialect in ("all", "any"):
        return (all if dialect == "all" else any)(holds(one, event) for one in content)
    for name, text in content.items():
        if name not in event:
            return False
        value = event[name]
        if dialect == "exact" and text_of(value) != text:
            return False
        if dialect != "exact":
            fits = isinstance(value, str) and (value.startswith(text) if dialect == "prefix" else value.endswith(text))
            if not fits:
                return False
    return True


@given(FILTERS, EVENTS)
def test_filters_mean_what_the_specification_says(item: dict[str, Any], event: dict[str, Any]) -> None:
    (expression,) = subscription_filter([item], None, None)
    filter = Filter(expression)
    assert filter.matches(event) == holds(item, event)
    assert Filter.parse(str(filter)).matches(event) == holds(item, event)


def test_source_types_and_filters_must_all_hold() -> None:
    terms = subscription_filter([{"prefix": {"type": "a"}}], "/s", ["ab", "b"])
    filter = Filter(And(tuple(terms)))
    assert filter.matches({"source": "/s", "type": "ab"})
    assert not filter.matches({"source": "/s", "type": "b"})
    assert not filter.matches({"source": "/t", "type": "ab"})


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"sql": "type = 'a'"}, "CESQL"),
        ({"regex": {"type": "a"}}, "exact, prefix"),
        ({"exact": {}}, "an object of attributes"),
        ({"exact": {"type": ""}}, "at least one character"),
        ({"exact": {"": "a"}}, "the name of a CloudEvents attribute"),
        ({"exact": {"data": "a"}}, "the name of a CloudEvents attribute"),
        ({"all": []}, "at least one filter"),
        ({"exact": {"type": "a"}, "prefix": {"type": "a"}}, "an object with one dialect"),
        ({"not": {"any": [{"suffix": {"type": 5}}]}}, "$.filters[0].not.any[0].suffix.type"),
    ],
)
def test_bad_filters_are_refused_with_their_place(item: dict[str, Any], said: str) -> None:
    with pytest.raises(Unprocessable, match="Expected") as caught:
        subscription_filter([item], None, None)
    assert said in str(caught.value)


def test_depth_is_limited() -> None:
    item: dict[str, Any] = {"exact": {"type": "a"}}
    for _ in range(2_000):
        item = {"not": item}
    with pytest.raises(Exception, match="filter depth"):
        subscription_filter([item], None, None)
