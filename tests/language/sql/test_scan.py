"""Texts that are scanned mean what they mean when they are parsed one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.language import texts as sql
from tests.language.test_columnar import check
from whimbrel.engine.intake import parsing as loads
from whimbrel.engine.intake.parsing import parse_load, scan_load
from whimbrel.lab.workloads import mixed
from whimbrel.language.columnar import DictionaryStrings
from whimbrel.language.sql import scan
from whimbrel.model.errors import UnknownDialect


@pytest.fixture(autouse=True, scope="module")
def _scan_all() -> Iterator[None]:
    before = loads.SCANNED_FROM, scan.RARE, scan.LONGEST, scan.SKELETON_BYTES
    loads.SCANNED_FROM, scan.RARE = 1, 1
    scan.LONGEST, scan.SKELETON_BYTES = 1 << 12, 1 << 14  # small ones are made faster
    yield
    loads.SCANNED_FROM, scan.RARE, scan.LONGEST, scan.SKELETON_BYTES = before


def agrees(batch: list[str]) -> None:
    check(parse_load(batch), batch)
    repeated = batch * 3
    check(parse_load(repeated), repeated)


plain = st.lists(sql.simple_predicates, min_size=1, max_size=4).map(" AND ".join)
_decimals = st.builds("{}.{}".format, st.integers(0, 10**17), st.text("0123456789", min_size=1, max_size=25))
numbers = st.one_of(
    st.floats(0, 2**60).map(repr),
    st.floats(0, 1).map(repr),
    st.integers(0, 2**60).map(str),
    _decimals,
    st.builds("{}e{}".format, _decimals, st.integers(-330, 3)),
    st.builds("{}{}".format, _decimals, st.sampled_from(["e-", "E-5", "e-5x", "e-400", ".", "x", "é", "e5", "'", "_"])),
)


@given(st.lists(plain, min_size=1, max_size=6))
def test_conjunctions_are_what_they_are_alone(batch: list[str]) -> None:
    agrees(batch)


@given(st.lists(sql.simple_texts, min_size=1, max_size=5))
def test_simple_texts_are_what_they_are_alone(batch: list[str]) -> None:
    agrees(batch)


@given(st.lists(sql.anything, min_size=1, max_size=5))
def test_nothing_is_lost_whatever_the_texts(batch: list[str]) -> None:
    agrees(batch)


@given(st.lists(numbers, min_size=1, max_size=8), st.sampled_from(["", "-", "- ", "+"]))
def test_numbers_have_their_exact_values(literals: list[str], sign: str) -> None:
    agrees([f"a = {sign}{literal} AND b < {literal}" for literal in literals])


@given(st.lists(st.one_of(sql.strings, sql.literals), min_size=1, max_size=8))
def test_literals_of_one_slot_may_be_anything(literals: list[str]) -> None:
    agrees([f"a = {literal} AND b IN ({literal}, 'x')" for literal in literals])


def scanned(*batch: str) -> tuple[list[int], list[int]]:
    """The rows that are conjunctions of predicates and those that are grouped whole; all are what they should be."""
    check(parse_load(batch), list(batch))
    parsed, _ = scan_load(batch, "sql")
    grouped = [row for group in parsed.groups for row in group.rows.tolist()]
    return [row for one in parsed.conjunctions for row in one.rows.tolist()], sorted(grouped)


@pytest.mark.parametrize(
    "text",
    [
        "a = 1",
        "a = 1 AND b BETWEEN 2 AND 3 AND c IN ('x', 'y')",
        "a BETWEEN -5 AND -2 AND b BETWEEN 1 AND +3",
        "5 < d AND a BETWEEN 'x' AND 'y' AND b > 5 AND NOT c = 1",
        "a = 0.30000000000000004 AND b > 3.6647972860570643e-05 AND c < 123456789012345.25",
        "flag AND NOT other AND t CONTAINS 'x' AND u NOT IN (1, TRUE, 'it is')",
        "a = ' AND ' AND b = 'x AND y' AND c = 'ü'",
        "a  =  1  AND  b=2 AND c\t=3",
    ],
)
def test_conjunctions_of_plain_predicates_are_cut(text: str) -> None:
    assert scanned(text, "b = 2") == ([0, 1], [])


@pytest.mark.parametrize(
    "text",
    [
        "TRUE",
        "a > 1 AND a < 5",
        "a = 1 OR b = 2 AND c = 'x'",
        "(a = 1 AND b = 2)",
        "a = 1 and b = 2",
        "a = 1 AND t CONTAINS ALL ('x', 'y')",
        "a = 1 AND b STARTS WITH 'x'",
    ],
)
def test_other_texts_with_a_columnar_form_are_grouped_whole(text: str) -> None:
    assert scanned(text, "b = 2", text) == ([1], [0, 2])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a = b",
        "a =",
        "a = 'x",
        "a = 5'x'",
        "a = 'it''s'",
        '"a" = 1',
        "`a` = 1",
        "é = 1",
        "a = 1e3",
        "a = .5",
        "a = 5.",
        "a = 5x",
        "a = 1.2.3",
        "a = 1234567890123456",
        "a = 0." + "0" * 100 + "1",
        "a = TIMESTAMP '2026-01-01'",
        "a LIKE 'x%'",
        "a = '" + "x" * (1 << 12) + "'",
    ],
)
def test_unusual_texts_are_left(text: str) -> None:
    assert scanned("a = 1", text) == ([0], [])


def test_a_text_of_very_many_predicates_is_not_cut() -> None:
    assert scanned(" AND ".join(f"a{n} = 1" for n in range(257)), "b = 2") == ([1], [0])


def test_rare_wholes_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "RARE", 3)
    assert scanned(*["a = 1 OR b = 2"] * 3, *["a = 1 OR c = 2"] * 2, "d = 1") == ([5], [0, 1, 2])


def test_texts_beyond_the_room_for_predicates_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = [f"a{n} = 1 AND b = 2" for n in range(20)]
    monkeypatch.setattr(scan, "SKELETONS", 8)
    assert scanned(*batch) == (list(range(7)), list(range(7, 15)))
    monkeypatch.setattr(scan, "SKELETONS", 1 << 15)
    monkeypatch.setattr(scan, "SKELETON_BYTES", 20)
    assert scanned(*batch) == ([0, 1], [2])


@pytest.mark.parametrize("workers", [1, 3])
def test_chunks_and_threads_make_no_difference(workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "CHUNK", 300)
    batch = mixed(1_000, events=1).subscriptions["filter"].combine_chunks()
    told: list[int] = []
    parsed, left = scan_load(batch, "sql", workers, told.append)
    assert not len(left) and told == [300, 600, 900, 1_000] and len(parsed.conjunctions) == 4
    check(parsed, batch.to_pylist())
    sliced = batch.slice(17, 400)
    check(parse_load(sliced), sliced.to_pylist())


def test_what_is_not_text_is_left() -> None:
    for batch in (["a = 1", None], ["a = 1", b"a = 1"], ["a = 1", "\ud800"], [], [5]):
        parsed, left = scan_load(batch, "sql")  # type: ignore[arg-type]
        assert left.tolist() == list(range(len(batch))) and not parsed.conjunctions
    broken = pa.array([b"a = '\xff'"]).cast(pa.binary()).view(pa.string())
    assert scan_load(broken, "sql")[1].tolist() == [0]
    assert scan_load(pa.array([1, 2]), "sql")[1].tolist() == [0, 1]
    assert [row for row, _ in parse_load(["a = 1", None, "\ud800"]).errors] == [1, 2]  # type: ignore[list-item]
    with pytest.raises(UnknownDialect):
        parse_load(["a = 1"], "cobol")


def test_words_are_a_sequence_of_strings() -> None:
    words = DictionaryStrings(np.array([1, 0, 1], np.int32), pa.array(["x", "y"], pa.large_string()))
    assert list(words) == ["y", "x", "y"] and len(words) == 3 and words[1] == "x"
    assert list(words[1:]) == ["x", "y"] and "x" in words
