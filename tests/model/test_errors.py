"""Errors: one class per kind, with typed fields, a formed sentence, and a way between processes."""

from __future__ import annotations

import copy
import pickle

import pytest

from whimbrel import WhimbrelError
from whimbrel.model.errors import (
    DuplicateId,
    EventError,
    FilterError,
    FilterSyntaxError,
    IdKindError,
    LimitExceeded,
    MissingExtra,
    UnknownDialect,
    UnknownId,
    UnsupportedEvent,
    UnsupportedFilter,
)

ERRORS: list[tuple[WhimbrelError, str]] = [
    (FilterError("Expected a date"), "Expected a date"),
    (FilterError("Bad", "a = 1\nAND x", 10), "Bad at line 2, column 5\n  AND x\n      ^"),
    (
        FilterSyntaxError("a value", "the end", "a =", 3),
        "Expected a value, but got the end at line 1, column 4\n  a =\n     ^",
    ),
    (
        LimitExceeded("event depth", 65, 64, "nested objects or lists", "a.b"),
        "Expected at most 64 nested objects or lists, but got 65 (limit: event depth) - at a.b",
    ),
    (
        LimitExceeded("x", 1_000_001, 1_000_000, "steps"),
        "Expected at most 1,000,000 steps, but got 1,000,001 (limit: x)",
    ),
    (EventError("an object", "list"), "Expected an object, but got list - at $"),
    (EventError("an object", "list", row=3), "Expected an object, but got list - at event 3: $"),
    (LimitExceeded("x", 2, 1, "steps", row=7), "Expected at most 1 steps, but got 2 (limit: x) - at event 7"),
    (UnknownDialect("x", ["cesql", "sql"]), "Expected a dialect of cesql, sql, but got 'x'"),
    (DuplicateId("a"), "Expected a new subscription id, but 'a' is already there (use replace)"),
    (UnknownId(7), "Expected the id of a subscription, but 7 is not there"),
    (IdKindError(True, "int64"), "Expected a subscription id of kind int64, but got bool True"),
    (
        UnsupportedFilter("gough", "set tests", ["naive", "engine"]),
        "Matcher 'gough' does not support set tests; supported by naive, engine",
    ),
    (UnsupportedFilter("gough", "set tests"), "Matcher 'gough' does not support set tests"),
    (UnsupportedEvent("gough", "lists", "a.b"), "Matcher 'gough' does not support lists - at a.b"),
    (MissingExtra("pyspark", "spark"), "pyspark is not installed; run: pip install 'whimbrel[spark]'"),
]


@pytest.mark.parametrize(("error", "sentence"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
def test_an_error_is_a_sentence(error: WhimbrelError, sentence: str) -> None:
    assert str(error) == sentence
    assert isinstance(error, WhimbrelError)


@pytest.mark.parametrize(("error", "sentence"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
def test_an_error_keeps_its_fields_on_the_way_between_processes(error: WhimbrelError, sentence: str) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == sentence
        assert vars(again) == vars(error)
        assert vars(again)


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(UnknownId, KeyError)
    assert issubclass(IdKindError, TypeError)
    assert issubclass(MissingExtra, ImportError)
    assert issubclass(FilterSyntaxError, FilterError)


def test_a_caret_counts_code_points() -> None:
    error = FilterSyntaxError("a name", "'='", "\U0001f600 = 1", 2)
    assert (error.line, error.column, error.position) == (1, 3, 2)
    assert str(error).endswith("\n  \U0001f600 = 1\n     ^"), (
        "the place is counted in code points, the caret stands under it"
    )


def test_a_caret_in_a_long_line_shows_a_window_around_the_place() -> None:
    text = "a = 1 AND " * 100 + "?"
    message = str(FilterSyntaxError("a predicate", "'?'", text, len(text) - 1))
    _, line, caret = message.split("\n")
    assert len(line) <= 122
    assert line[caret.index("^")] == "?"
    assert "line 1, column 1001" in message


def test_a_caret_at_the_start_of_a_long_line_shows_the_start() -> None:
    text = "? " + "a = 1 AND " * 100
    _, line, caret = str(FilterSyntaxError("a predicate", "'?'", text, 0)).split("\n")
    assert line == f"  {text[:120]}"
    assert caret == "  ^"


def test_a_limit_in_one_event_of_many_names_the_place_only_where_it_is_known():
    assert str(LimitExceeded("x", 2, 1, "steps").at_row(3)).endswith("(limit: x) - at event 3")
    assert str(LimitExceeded("x", 2, 1, "steps", "a.b").at_row(3)).endswith("(limit: x) - at event 3: a.b")
