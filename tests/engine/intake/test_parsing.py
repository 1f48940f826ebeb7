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
from whimbrel.engine.intake import parsing as loads
from whimbrel.language import parse
from whimbrel.language.sql import scan, scan_kernels
from whimbrel.model.errors import WhimbrelError


@pytest.fixture(autouse=True, scope="module")
def _scan_all() -> Iterator[None]:
    before = loads.SCANNED_FROM, loads.CHUNK, scan.RARE, scan.LONGEST, scan.SKELETON_BYTES
    loads.SCANNED_FROM, loads.CHUNK, scan.RARE, scan.LONGEST, scan.SKELETON_BYTES = 1, 7, 1, 1 << 12, 1 << 14
    yield
    loads.SCANNED_FROM, loads.CHUNK, scan.RARE, scan.LONGEST, scan.SKELETON_BYTES = before


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
    sql.simple_predicates,
)
_texts = st.lists(_predicates, min_size=1, max_size=3).flatmap(
    lambda parts: st.sampled_from([" AND ", " AND ", " OR "]).map(lambda join: join.join(parts))
)


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
    for event in [*events, {"a": 1, "b": 2, "c": "a"}, {"a": "ab", "b": 2.5, "c": [1, "b"], "d": {"x": -1}}]:
        assert index.match(event) == [id for id, filter in enumerate(filters) if filter.matches(event)]


def test_a_head_is_scanned_where_that_needs_no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "SCANNED_FROM", 4_096)
    texts = [f"a = {n} AND b = 'x{n % 7}'" for n in range(loads.READY_FROM)]
    scan.scan_columns(pa.array(texts, pa.large_string()))  # now it is compiled
    assert len(loads.scan_load(texts, "sql")[1]) == 0
    assert len(loads.scan_load(texts[1:], "sql")[1]) == len(texts) - 1
    index = Index()
    index.add_many(enumerate(texts))
    assert index.match({"a": 9, "b": "x2"}) == [9]
    monkeypatch.setattr(scan_kernels, "cut_texts", object())
    for is_cold, left in ((True, len(texts)), (False, 0)):
        monkeypatch.setattr(warm_up, "is_cold", lambda kernel, cold=is_cold: cold)
        assert len(loads.scan_load(texts, "sql")[1]) == left
