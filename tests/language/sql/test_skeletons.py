"""Texts cut at AND: predicate by predicate what they are as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import texts as sql
from tests.language.test_columnar import check
from whimbrel.lab.workloads import mixed
from whimbrel.language.columnar import parse_many
from whimbrel.language.sql.skeletons import MOST_PREDICATES, read_predicate, split_skeleton


@given(st.lists(st.lists(sql.simple_predicates, min_size=1, max_size=4).map(" AND ".join), max_size=6))
def test_conjunctions_are_what_they_are_as_wholes(batch: list[str]) -> None:
    check(parse_many(batch, split=True), batch)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "a = 1 AND b BETWEEN 2 AND 3 AND c IN ('x', 'y')",
        "5 < d AND a BETWEEN 'x' AND 'y' AND b > 5 AND NOT c = 1",
        "a = -1 AND b BETWEEN -5 AND 2.5 AND c > -0 AND d != -0.0",
        "a = 1.5 AND b = 2 AND c = 3.0",
        "flag AND NOT other AND t CONTAINS 'x' AND u NOT IN (1, TRUE, 'it is')",
        "a = ' AND ' AND b = 'x AND y'",
        "a  =  1  AND  b=2 AND c\t=3",
    ],
)
def test_plain_predicates_are_taken_apart(text: str) -> None:
    parsed = parse_many([text], split=True)
    assert [part.rows.tolist() for part in parsed.conjunctions] == [[0]] and not parsed.groups
    check(parsed, [text])


@pytest.mark.parametrize(
    "text",
    [
        "a = 1 OR b = 2 AND c = 3",
        "a = 1 AND b = 2 OR c = 3",
        "(a = 1 AND b = 2)",
        "(a = 1 AND b = 2) AND c = 3",
        "NOT (a = 1 AND b = 2)",
        "a > 1 AND a < 5",
        "a = 1 AND b LIKE 'x%'",
        "a = 1 AND b STARTS WITH 'x'",
        "a = 1 AND b = TIMESTAMP '2026-01-01'",
        "a = 1 AND t CONTAINS ALL ('x', 'y')",
        "a = 1 AND b = c",
        "a BETWEEN b AND 5",
        "a = 1 AND 2 = b",
        "a = 1 AND TRUE",
        "a = 1e3 AND b = 2",
        "a = 12345678901234567 AND b = 2",
        "a = 1 and b = 2",
        "a = 1 AND\tb = 2",
        "a BETWEEN -5 AND -2 AND b = 1",
        "a BETWEEN 'x' AND 'y' AND 5 < b",
        '"a" = 1 AND b = 2',
        "a = 'it''s' AND b = 2",
        " AND ".join(f"a{number} = 1" for number in range(MOST_PREDICATES + 1)),
    ],
)
def test_other_texts_are_read_as_wholes(text: str) -> None:
    parsed = parse_many([text], split=True)
    assert not parsed.conjunctions and not parsed.errors
    check(parsed, [text])


@pytest.mark.parametrize("text", ["a BETWEEN 5&6", "a = 1 AND", "a = 1 AND AND b = 2", "a = 1 AND (b = 2", "a = 5'x'"])
def test_bad_texts_are_errors(text: str) -> None:
    batch = ["a BETWEEN 5 AND 6", "a = 1 AND b = 2", text]
    parsed = parse_many(batch, split=True)
    assert [row for row, _ in parsed.errors] == [2]
    check(parsed, batch)


def test_a_predicate_is_parsed_once() -> None:
    read_predicate.cache_clear()
    batch = [f"x = {n} AND y{n % 3} BETWEEN {n} AND 9 AND z{n % 5} IN ('{n}', 'q')" for n in range(60)]
    parsed = parse_many(batch, split=True)
    assert read_predicate.cache_info().misses == 1 + 3 + 5
    check(parsed, batch)


def test_shapes_that_many_rows_share_stay_whole() -> None:
    batch = [f"a = {n} AND b < 5" for n in range(20)]
    parsed = parse_many(batch, split=True)
    assert not parsed.conjunctions and [len(group.rows) for group in parsed.groups] == [20]


def test_the_mixed_workload_is_taken_apart() -> None:
    batch = mixed(2_000, events=1).subscriptions["filter"].to_pylist()
    parsed = parse_many(batch, split=True)
    assert sum(len(part.rows) for part in parsed.conjunctions) > 1_900
    assert sum(len(part.groups) for part in parsed.conjunctions) <= 250
    check(parsed, batch)


def test_only_the_and_of_between_is_kept() -> None:
    assert split_skeleton("a BETWEEN '' AND '' AND b = ' AND c < ''") == ["a BETWEEN '' and ''", "b = '", "c < ''"]
    assert split_skeleton("a BETWEEN ' AND ' AND ' < b") == ["a BETWEEN ' and '", "' < b"]
