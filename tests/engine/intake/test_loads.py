"""Large loads, scanned and pooled, match what the filters match one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import strategies
from tests.language import texts as sql
from whimbrel import Index
from whimbrel.compiled import warm_up
from whimbrel.language import parse
from whimbrel.language.columnar import terms as loads
from whimbrel.language.sql import scan, scan_kernels
from whimbrel.model.errors import WhimbrelError


@pytest.fixture(autouse=True, scope="module")
def _scan_all() -> Iterator[None]:
    before = loads.SCANNED_FROM, loads.CHUNK, scan.LONGEST, scan.SKELETON_BYTES
    loads.SCANNED_FROM, loads.CHUNK, scan.LONGEST, scan.SKELETON_BYTES = 1, 7, 1 << 12, 1 << 14
    yield
    loads.SCANNED_FROM, loads.CHUNK, scan.LONGEST, scan.SKELETON_BYTES = before


_names = st.sampled_from(["a", "b", "c", "d.x"])
_values = st.sampled_from(["1", "2", "-1", "2.5", "'a'", "'ab'", "'b'", "TRUE"])
_numbers = st.sampled_from(["1", "2", "-1", "2.5", "0.30000000000000004"])
_lists = st.lists(_values, min_size=1, max_size=3).map(", ".join)
_predicates = st.one_of(
    st.builds("{} = {}".format, _names, _values),
    st.builds("{} {} {}".format, _names, st.sampled_from(["<", "<=", ">", ">=", "!="]), _numbers),
    st.builds("{} >= 'a' AND {} < {}".format, _names, _names, _numbers),
    st.builds("{} BETWEEN {} AND {}".format, _names, _numbers, _numbers),
    st.builds("{} {} ({})".format, _names, st.sampled_from(["IN", "NOT IN", "CONTAINS ALL"]), _lists),
    st.builds("{} {}BETWEEN {} AND {}".format, _names, sql.nots, _values, _values),
    st.builds("{} {}CONTAINS {} ({})".format, _names, sql.nots, st.sampled_from(["ALL", "ANY", "NONE"]), _lists),
    st.builds("{} IS {}{}".format, _names, sql.nots, st.sampled_from(["NULL", "MISSING"])),
    st.builds(
        "{} {}LIKE {!r}".format, _names, sql.nots, st.sampled_from(["a", "a%", "%b", "%a%", "a%b", "_b", "%a%b%"])
    ),
    st.builds("{} {}{} WITH 'a'".format, _names, sql.nots, st.sampled_from(["STARTS", "ENDS"])),
    st.builds("{} {}RLIKE {!r}".format, _names, sql.nots, st.sampled_from(["a", "^ab$", "a|b", "x*"])),
    st.builds("{} {}IN CIDR {!r}".format, _names, sql.nots, st.sampled_from(["10.0.0.0/8", "10.1.2.3", "::/0"])),
    sql.simple_predicates,
)
_texts = st.recursive(
    _predicates,
    lambda inner: st.one_of(sql.joined(inner.map("({})".format)), inner.map("NOT ({})".format), sql.joined(inner)),
    max_leaves=5,
)


EVENTS: list[dict[str, Any]] = [
    {},
    {"a": 1, "b": 2, "c": "a"},
    {"a": "ab", "b": 2.5, "c": [1, "b"], "d": {"x": -1}},
    {"a": ["a", "xb", None], "b": None, "c": "10.1.2.3", "d": [{"x": "ab"}, {"x": 2}]},
]


def _is_good(text: str) -> bool:
    try:
        parse(text)
    except WhimbrelError:
        return False
    return True


@given(st.lists(_texts.filter(_is_good), min_size=1, max_size=30), st.lists(strategies.events(), max_size=6))
def test_a_scanned_load_matches_what_its_filters_match(batch: list[str], events: list[dict[str, Any]]) -> None:
    index = Index()
    index.add_many(enumerate(batch))
    filters = [parse(text) for text in batch]
    for event in [*events, *EVENTS]:
        assert index.match(event) == [id for id, filter in enumerate(filters) if filter.matches(event)]


NAMED = {
    "a list of which only a part is collapsed": "b NOT IN (FALSE, 3, 3)",
    "a string after a timestamp is no timestamp": "a IN (TIMESTAMP '2020-01-01', 'ab')",
    "an empty intersection beside another conjunction": "a > 5 AND a < 1 OR b = 2",
    "sets of one attribute that unite to all": "a != 1 OR a != 'ab'",
    "always true beside something else": "a = 1 OR TRUE",
    "the same conjunction twice": "a = 1 OR (a = 1)",
    "a product that unites in two steps": "(a = 1 OR a = 'ab') AND (b = 2 OR b = 2.5)",
    "patterns of one attribute": "a LIKE 'a%' AND a LIKE '%b' AND NOT a LIKE '%x%'",
    "a range turned inside out": "a NOT BETWEEN 5 AND 1",
    "null only": "b IS NULL AND b IS NOT MISSING",
    "no value is none of them": "NOT c CONTAINS 1",
}


@pytest.mark.parametrize("text", NAMED.values(), ids=NAMED.keys())
def test_a_form_that_is_easy_to_get_wrong(text: str) -> None:
    index = Index()
    index.add_many([(0, text), (1, text), (2, "a = a")])
    for event in EVENTS:
        assert [id for id in index.match(event) if id < 2] == ([0, 1] if parse(text).matches(event) else [])


def test_intersections_take_as_much_space_as_they_need() -> None:
    """A few rows whose sets need far more intervals than are set aside at first."""
    text = " AND ".join(f"a NOT IN ({n}, {n + 1000})" for n in range(300))
    index = Index()
    index.add_many([(0, text), (1, "a = 1")])
    assert [index.match({"a": a}) for a in (1, 300, 1001, 2000)] == [[1], [0], [], [0]]


def test_a_head_is_scanned_where_that_needs_no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "SCANNED_FROM", 4_096)
    texts = [f"a = {n} AND b = 'x{n % 7}'" for n in range(loads.READY_FROM)]
    scan.scan_columns(pa.array(texts, pa.large_string()))  # now it is compiled
    assert len(loads.scan_many(texts, "sql")[1]) == 0
    assert len(loads.scan_many(texts[1:], "sql")[1]) == len(texts) - 1
    index = Index()
    for id, text in enumerate(texts):
        index.add(id, text)
    index.add(64, parse("b = 'x2'"))
    index.add(65, "a = b")
    index.merge()
    assert index.match({"a": 9, "b": "x2"}) == [9, 64] and index.match({"a": 3, "b": 3}) == [65]
    monkeypatch.setattr(scan_kernels, "scan_texts", object())
    for is_cold, left in ((True, len(texts)), (False, 0)):
        monkeypatch.setattr(warm_up, "is_cold", lambda kernel, cold=is_cold: cold)
        assert len(loads.scan_many(texts, "sql")[1]) == left
