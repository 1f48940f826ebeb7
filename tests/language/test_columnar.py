from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import texts as sql
from whimbrel import Index
from whimbrel.language import parse
from whimbrel.language.columnar import ColumnarShape, Operand, ParsedMany, Term, parse_many
from whimbrel.language.sql import bulk_parser
from whimbrel.model import dialects
from whimbrel.model.errors import UnknownDialect, WhimbrelError
from whimbrel.model.filter import Filter


def rows_of(parsed: ParsedMany) -> list[int]:
    grouped = [row for group in parsed.groups for row in group.rows.tolist()]
    grouped += [row for part in parsed.conjunctions for row in part.rows.tolist()]
    return sorted([*grouped, *parsed.filters, *(row for row, _ in parsed.errors)])


def shape_of(text: str) -> ColumnarShape | None:
    parsed = parse_many([text])
    assert not parsed.errors
    return parsed.groups[0].shape if parsed.groups else None


def agrees(batch: list[str]) -> None:
    for split in (False, True):
        check(parse_many(batch, split=split), batch)


def check(parsed: ParsedMany, batch: list[str]) -> None:
    assert parsed.count == len(batch)
    assert rows_of(parsed) == list(range(len(batch)))
    for part in parsed.conjunctions:
        for row, filter in part.filters().items():
            assert filter == parse(batch[row])
    for group in parsed.groups:
        assert len(group.columns) == len(group.shape.slot_types)
        for index, row in enumerate(group.rows.tolist()):
            assert group.filter(index) == parse(batch[row])
    for row, filter in parsed.filters.items():
        assert filter == parse(batch[row])
        assert filter.text == batch[row]
    for row, error in parsed.errors:
        with pytest.raises(type(error)) as caught:
            parse(batch[row])
        assert str(caught.value) == str(error)


@given(st.lists(sql.simple_texts, max_size=5))
def test_each_simple_text_is_the_filter_that_it_is_alone(batch):
    agrees(batch)


@given(st.lists(sql.anything, max_size=5))
def test_nothing_is_lost_whatever_the_texts(batch):
    agrees(batch)


@given(
    st.lists(st.one_of(sql.numbers, sql.strings, sql.timestamps), min_size=1, max_size=6), st.sampled_from(["", "-"])
)
def test_literals_of_one_slot_may_be_anything(literals, sign):
    agrees([f"a = {sign}{literal}" for literal in literals])


@given(st.lists(sql.simple_texts, min_size=3, max_size=8))
def test_chunks_make_no_difference(batch):
    before = bulk_parser.CHUNK
    bulk_parser.CHUNK = 2
    try:
        agrees(batch * 2)
    finally:
        bulk_parser.CHUNK = before


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("TRUE", ()),
        ("a = 5", (Term("a", "points", (Operand(0),)),)),
        ("active", (Term("active", "points", (Operand(None, True),)),)),
        ("a IN (5, FALSE, 'x')", (Term("a", "points", (Operand(1), Operand(None, False), Operand(0))),)),
        ("a != 5", (Term("a", "excluded", (Operand(0),)),)),
        ("NOT a = 5", (Term("a", "excluded", (Operand(0),)),)),
        ("a NOT IN (5, 6)", (Term("a", "excluded", (Operand(0), Operand(1))),)),
        ("a != 5 AND a != 6", (Term("a", "excluded", (Operand(0), Operand(1))),)),
        ("t CONTAINS 'x'", (Term("t", "required", (Operand(0),)),)),
        ("t CONTAINS ALL ('x', 'y')", (Term("t", "required", (Operand(0), Operand(1))),)),
        ("t CONTAINS 'x' AND t CONTAINS 'y'", (Term("t", "required", (Operand(0), Operand(1))),)),
        ("a STARTS WITH 'x'", (Term("a", "prefix", (Operand(0),)),)),
        ("a < 5", (Term("a", "range", upper=Operand(0)),)),
        ("a <= 5", (Term("a", "range", upper=Operand(0), upper_inclusive=True),)),
        ("5 < a", (Term("a", "range", lower=Operand(0)),)),
        ("NOT a < 5", (Term("a", "range", lower=Operand(0), lower_inclusive=True),)),
        ("a BETWEEN 1 AND 2", (Term("a", "range", (), Operand(0), True, Operand(1), True),)),
        ("a < 2 AND a >= 1", (Term("a", "range", (), Operand(1), True, Operand(0), False),)),
        ("a = 1 AND b = 'x'", (Term("a", "points", (Operand(1),)), Term("b", "points", (Operand(0),)))),
    ],
)
def test_simple_conjunctions_have_a_columnar_form(text, terms):
    shape = shape_of(text)
    assert shape is not None
    assert shape.conjunctions == (terms,)


def test_an_or_of_conjunctions_has_a_columnar_form():
    shape = shape_of("a = 1 OR b = 2 AND c = TIMESTAMP '2020-01-01' OR a = 3")
    assert shape is not None
    assert [[term.attribute for term in terms] for terms in shape.conjunctions] == [["a"], ["b", "c"], ["a"]]
    assert shape.slot_types == ("timestamp", "number", "number", "number")


@pytest.mark.parametrize(
    "text",
    [
        "FALSE",
        "NULL",
        "a = NULL",
        "a IN (1, NULL)",
        "a CONTAINS NULL",
        "a < NULL",
        "a < TRUE",
        "a = b",
        "1 < 2",
        "a IS NULL",
        "a LIKE 'x%'",
        "a NOT STARTS WITH 'x'",
        "a CONTAINS ANY (1, 2)",
        "a NOT CONTAINS 1",
        "a = 1 AND a = 2",
        "a > 1 AND a > 2",
        "a > 1 AND a < 'x'",
        "a > 1 AND a != 2",
        "a BETWEEN 1 AND 5 AND a < 3",
        "NOT (a = 1 AND b = 2)",
        "(a = 1 OR b = 2) AND c = 3",
    ],
)
def test_everything_else_comes_back_as_filters(text):
    parsed = parse_many([text])
    assert parsed.groups == []
    assert parsed.filters[0] == parse(text)


def test_texts_that_differ_in_space_and_case_of_keywords_are_one_shape():
    parsed = parse_many(["a = 1 AND b < 2", "a=3 and b  <4", "(a = 5) AND b < +6"])
    assert len(parsed.groups) == 1
    assert [column.tolist() for column in parsed.groups[0].columns] == [[1, 3, 5], [2, 4, 6]]


def column_of(*literals: str) -> object:
    (group,) = parse_many([f"a = {literal}" for literal in literals]).groups
    (column,) = group.columns
    return column


@pytest.mark.parametrize(
    ("literals", "values", "dtype"),
    [
        (["1", "2"], [1, 2], np.int64),
        (["1", "2.0", "1e2"], [1, 2, 100], np.int64),
        (["9223372036854775806"], [2**63 - 2], np.int64),
        (["9223372036854775807"], [2**63 - 1], np.int64),
        (["-5", "-0"], [-5, 0], np.int64),
        (["1", "0.5"], [1.0, 0.5], np.float64),
        (["-.5", "-0"], [-0.5, 0.0], np.float64),
        (["0.5", "1e300", "1e999"], [0.5, 1e300, float("inf")], np.float64),
        (["-0.5", "-1e300"], [-0.5, -1e300], np.float64),
        (["0.5", "9007199254740993"], [0.5, 2**53 + 1], list),
        (["9223372036854775809"], [2**63 + 1], list),
        (["'x'", "'it''s'"], ["x", "it's"], list),
        (["TIMESTAMP '1970-01-01'", "TIMESTAMP '1970-01-02'"], [0, 86_400_000_000_000], np.int64),
        (["TIMESTAMP '0001-01-01'"], [-62_135_596_800_000_000_000], list),
    ],
)
def test_a_column_has_the_narrowest_type_that_is_exact(literals, values, dtype):
    column = column_of(*literals)
    if dtype is list:
        assert column == values
        return
    assert isinstance(column, np.ndarray)
    assert column.dtype == dtype
    assert column.tolist() == values
    assert not np.signbit(column).any() or min(values) < 0


def test_parts_of_a_column_of_different_types_join(monkeypatch):
    monkeypatch.setattr(bulk_parser, "CHUNK", 1)
    assert column_of("1", "0.5").dtype == np.float64
    assert column_of("1", "2").dtype == np.int64
    assert column_of("9007199254740993", "0.5") == [2**53 + 1, 0.5]
    assert column_of("1", "9223372036854775809") == [1, 2**63 + 1]
    assert column_of("'x'", "'y'") == ["x", "y"]


def test_equal_strings_are_one_object():
    column = column_of("'category'", "'category'")
    assert column[0] is column[1]


def test_a_bad_literal_costs_its_row_only():
    good, bad = "a > TIMESTAMP '2020-01-01' AND b = 5", "a > TIMESTAMP '2020-99-01' AND b = 5"
    parsed = parse_many([good, bad, good, good.replace("5", "9" * 1_001), "a = ", None, "b = '\ud800'"])
    assert parsed.groups[0].rows.tolist() == [0, 2]
    assert [row for row, _ in parsed.errors] == [1, 3, 4, 5, 6]
    assert all(isinstance(error, WhimbrelError) for _, error in parsed.errors)
    only_bad = parse_many([bad, bad])
    assert (only_bad.groups, [row for row, _ in only_bad.errors]) == ([], [0, 1])


def test_the_texts_may_be_an_iterator():
    assert parse_many(iter(["a = 1", "a = 2"])).groups[0].rows.tolist() == [0, 1]
    assert parse_many([]).groups == []


def test_other_dialects_give_filters(monkeypatch):
    class Shouting:
        def parse(self, source: object) -> Filter:
            return parse(str(source).lower())

        def print(self, filter: Filter) -> str:
            return str(filter).upper()

    monkeypatch.setitem(dialects._REGISTRY, "shouting", Shouting())
    parsed = parse_many(["A = 5", "A ="], dialect="shouting")
    assert parsed.filters == {0: parse("a = 5")}
    assert [row for row, _ in parsed.errors] == [1]
    with pytest.raises(UnknownDialect):
        parse_many(["a = 5"], dialect="cobol")


def test_a_dialect_with_a_columnar_form_is_asked_for_it(monkeypatch):
    class Columns:
        def parse(self, source: object) -> Filter:
            raise AssertionError

        def print(self, filter: Filter) -> str:
            return str(filter)

        def parse_columns(self, texts, split=False):
            return ParsedMany(len(texts), filters=dict.fromkeys(range(len(texts)), parse("a = 5")))

        def scan_columns(self, texts):
            return ParsedMany(len(texts)), np.arange(len(texts))

        def is_scan_compiled(self):
            return True

    monkeypatch.setitem(dialects._REGISTRY, "columns", Columns())
    assert parse_many(["?", "!"], dialect="columns").filters == {0: parse("a = 5"), 1: parse("a = 5")}
    index = Index()
    index.add_many(((n, "?") for n in range(5_000)), dialect="columns")
    assert len(index.match({"a": 5})) == 5_000
