"""Facts come back from disk as they were given, or are refused before."""

from __future__ import annotations

import pytest

from whimbrel.model.errors import LimitExceeded
from whimbrel.model.limits import FACTS_BYTES
from whimbrel.storage.errors import FactsError
from whimbrel.storage.facts import checked_facts


def test_facts_are_copied() -> None:
    facts = {"offset": 42, "id": "ä", "nested": {"list": [1, 2.5, None, True]}}
    copy = checked_facts(facts)
    assert copy == facts and copy is not facts and copy["nested"] is not facts["nested"]
    assert checked_facts(None) == {}


@pytest.mark.parametrize(
    "facts", [{1: "a"}, {"a": {2: 3}}, {"a": float("nan")}, {"a": (1, 2)}, {"a": object()}, {"a": b"x"}]
)
def test_facts_that_json_would_change_are_refused(facts: dict) -> None:
    with pytest.raises(FactsError, match="Expected facts that JSON can hold"):
        checked_facts(facts)


def test_facts_are_bounded() -> None:
    overhead = len('{"a":""}')
    assert checked_facts({"a": "x" * (FACTS_BYTES.value - overhead)})
    with pytest.raises(LimitExceeded, match="facts bytes"):
        checked_facts({"a": "x" * (FACTS_BYTES.value - overhead + 1)})
