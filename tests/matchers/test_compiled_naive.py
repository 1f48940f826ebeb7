"""The compiled baseline counts what it looks at."""

from __future__ import annotations

from whimbrel.matchers import make


def test_naive_looks_at_a_conjunction_until_its_first_failure() -> None:
    naive = make("compiled_naive", count=True)
    naive.add_many(enumerate(["a = 1 AND b < 5 AND c = 1", "a = 2 AND b < 5", "b < 7"]))
    naive.match({"a": 1, "b": 6})
    stats = naive.stats()
    assert (stats["conjunctions_checked"], stats["predicate_evaluations"]) == (3, 2 + 1 + 1)
    naive.match({"a": [2, 1], "b": 3})
    assert naive.stats()["predicate_evaluations"] == 4 + 3 + 2 + 1
