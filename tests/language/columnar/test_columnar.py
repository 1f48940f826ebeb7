"""Texts in their columnar form are the filters that they are alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.language.columnar_filters import filters_of
from whimbrel import Index
from whimbrel.language import parse
from whimbrel.language.columnar import terms as columnar
from whimbrel.language.columnar.terms import DictionaryStrings, ParsedMany, parse_many
from whimbrel.model import dialects
from whimbrel.model.errors import LimitExceeded, UnknownDialect
from whimbrel.model.filter import Filter


def check(parsed: ParsedMany, batch: list[str]) -> None:
    """Assert that every row is there once, and is what its text is alone."""
    assert parsed.count == len(batch)
    found = dict(parsed.filters)
    for filter, row in ((filter, row) for row, filter in parsed.filters.items()):
        assert filter.text == batch[row]
    for part in parsed.conjunctions:
        made = filters_of(part)
        assert not made.keys() & found.keys()
        found |= made
    assert sorted([*found, *(row for row, _ in parsed.errors)]) == list(range(len(batch)))
    for row, filter in found.items():
        assert filter == parse(batch[row])
    for row, error in parsed.errors:
        with pytest.raises(type(error)) as caught:
            parse(batch[row])
        assert str(caught.value) == str(error)


def test_small_loads_and_other_dialects_give_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shouting:
        def parse(self, source: object) -> Filter:
            return parse(str(source).lower())

        def print(self, filter: Filter) -> str:
            return str(filter).upper()

    monkeypatch.setitem(dialects._REGISTRY, "shouting", Shouting())
    parsed = parse_many(["A = 5", "A ="] * 5_000, dialect="shouting")
    assert parsed.filters[0] == parse("a = 5") and len(parsed.filters) == 5_000
    assert [row for row, _ in parsed.errors[:2]] == [1, 3]
    assert parse_many(["a = 5", "a ="]).filters == {0: parse("a = 5")}
    assert parse_many([]).count == 0
    with pytest.raises(UnknownDialect):
        parse_many(["a = 5"], dialect="cobol")


def test_a_dialect_with_a_columnar_form_is_asked_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Columns:
        def parse(self, source: object) -> Filter:
            return parse("a = 5")

        def print(self, filter: Filter) -> str:
            return str(filter)

        def scan_columns(self, texts: pa.Array) -> tuple[ParsedMany, np.ndarray]:
            rows = range(0, len(texts), 2)
            return ParsedMany(len(texts), filters=dict.fromkeys(rows, parse("a = 6"))), np.arange(1, len(texts), 2)

        def is_scan_compiled(self) -> bool:
            return True

    monkeypatch.setitem(dialects._REGISTRY, "columns", Columns())
    index = Index()
    index.add_many(((n, "?") for n in range(5_000)), dialect="columns")
    assert len(index.match({"a": 5})) == len(index.match({"a": 6})) == 2_500


def test_what_is_not_text_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "SCANNED_FROM", 1)
    for batch in (["a = 1", None], ["a = 1", b"a = 1"], ["a = 1", "\ud800"], [], [5]):
        parsed, left = columnar.scan_many(batch, "sql")  # type: ignore[arg-type]
        assert left.tolist() == list(range(len(batch))) and not parsed.conjunctions
    broken = pa.array([b"a = '\xff'"]).cast(pa.binary()).view(pa.string())
    assert columnar.scan_many(broken, "sql")[1].tolist() == [0]
    assert columnar.scan_many(pa.array([1, 2]), "sql")[1].tolist() == [0, 1]
    assert [row for row, _ in parse_many(["a = 1", None, "\ud800"]).errors] == [1, 2]  # type: ignore[list-item]


def test_errors_hold_no_parser() -> None:
    ((_, error),) = parse_many(["a <"]).errors
    assert error.__traceback__ is None


def test_progress_counts_up_to_all() -> None:
    batch = ["a = 1", "a LIKE 'x' ESCAPE '!!' OR a ="] * 5_000
    told: list[int] = []
    parse_many(batch, "sql", 1, told.append)
    assert told == sorted(told) and told[0] == 5_000 and told[-1] == 10_000


def test_words_are_a_sequence_of_strings() -> None:
    words = DictionaryStrings(np.array([1, 0, 1], np.int32), pa.array(["x", "y"], pa.large_string()))
    assert list(words) == ["y", "x", "y"] and len(words) == 3 and words[1] == "x"
    assert list(words[1:]) == ["x", "y"] and "x" in words
    assert words.distinct()[0] == ["x", "y"] and words.distinct()[1].tolist() == [1, 0, 1]


def test_a_pattern_that_is_too_long_with_another_escape_is_left_to_the_parser() -> None:
    text = "a ILIKE '%" + "\\" * 8_000 + "x%y' ESCAPE '!'"
    index = Index()
    index.add_many([(0, text), *((n, f"a = {n}") for n in range(1, 5_000))])
    assert index.match({"a": "-" + "\\" * 8_000 + "X-y"}) == [0]


def test_lists_that_too_many_conjunctions_repeat_are_left_to_the_parser() -> None:
    members = ", ".join(map(str, range(8_000)))
    texts = [
        f"a IN ({members}) AND (" + " OR ".join(f"x{n} = 1 AND a != {n}" for n in range(many)) + ")"
        for many in (9, 200)
    ]
    parsed = parse_many([*texts, *(f"a = {n}" for n in range(5_000))])
    assert list(parsed.filters) == [1]
    with pytest.raises(LimitExceeded, match="filter values"):
        _ = parsed.filters[1].conjunctions
    assert [one for one in parsed.conjunctions[0].rows.tolist() if one < 2] == [0] * 9
