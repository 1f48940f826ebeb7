"""Mixtures of all forms in which filters are written, loaded at once: matches are those of the filters themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.test_index import pairs
from whimbrel import Filter, Index
from whimbrel.language.columnar import terms as columnar

FORMS = [
    "user = 'u{n}'", "'u{n}' != user", "price BETWEEN {n} AND {m}", "price >= {n} and price<={m}", "NOT price > {n}",
    "price NOT BETWEEN {n} AND {m}", "price IN ({n}, NULL, {m})", "price NOT IN ({n}, {m}.5)", "price <=> {n}",
    "price < ceiling", "NOT ceiling <= price", "city != town", "price = price", "big = {big}", "{big} < big",
    "big IN ({big}, 7)", "name LIKE '%{w}'", "name LIKE '%{w}%'", "name LIKE '{w}%'", "name LIKE '{w}%{w}'",
    "name LIKE '_{w}%b_'", "name NOT LIKE '%{w}_'", "name LIKE '%{w}!%%' ESCAPE '!'", "name ILIKE '%{W}%'",
    "name NOT ILIKE '{W}_%'", "lower(name) = '{w}'", "lower(name) IN ('{w}', 'b')", "upper(name) LIKE '{W}%'",
    "name RLIKE '^{w}+[ab]?$'", "name NOT RLIKE '{w}.'", "name RLIKE '{w}'", "name RLIKE 'a\\b'", "name IS NOT NULL",
    "ceiling IS NULL", "tags IS MISSING", "tags CONTAINS ALL ('{w}', 'b')", "tags CONTAINS NONE ('{w}', 'u{n}')",
    "tags CONTAINS ANY ({n}, {m})", "tags CONTAINS '{w}'", "name IN CIDR '10.{n}.0.0/16'", "active", "NOT active",
    "active IS NOT TRUE", "price IS NOT FALSE", "price <=> ceiling", "NOT price <=> {n}", "NOT city <=> town",
    "price <= price", "{n} BETWEEN price AND ceiling", "price NOT BETWEEN ceiling AND {m}", "price BETWEEN {n} AND 'x'",
    "tags NOT CONTAINS ALL ('{w}', 'b')", "tags CONTAINS NULL", "tags CONTAINS ANY ('{w}', NULL)",
    "tags CONTAINS NONE (NULL, {n})", "price IN ({n}, {m}, 'x', 'y')", "price NOT IN ('x', 'y', {n}, TRUE)",
    "price < 1{big}000", "big > -9223372036854775808", "price <= 1e999", "price > {n}e300", "price < DATE '9999-12-31'",
    "NOT lower(name) IN ('{w}', 'b')", "name RLIKE '(?i){W}'", "'a' < '{w}'", "price\u00a0=\u2003{n}",
    "(price = {n} OR price = {m} OR price > 2 OR price = 'x' OR price IN (0, 'y') OR price = {n}.5)",
    "price != {n} AND price != {m} AND price != 'x' AND price NOT IN (0, 7) AND price != {n}.5",
]  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def _scan_all() -> Iterator[None]:
    before, columnar.SCANNED_FROM = columnar.SCANNED_FROM, 1
    yield
    columnar.SCANNED_FROM = before


def text(source: Random, depth: int = 2) -> str:
    if depth == 0 or source.random() < 0.4:
        word = "".join(source.choices("ab%", k=source.randint(1, 2))).replace("%", "é")
        n = source.randrange(4)
        form = source.choice(FORMS)
        return form.format(n=n, m=n + source.randrange(3), w=word, W=word.upper(), big=2**60 + n)
    join = source.choice([" AND ", " AND ", " or "])
    inner = join.join(text(source, depth - 1) for _ in range(source.randint(1, 3)))
    return source.choice(["", "", "NOT "]) + f"({inner})"


def event(source: Random) -> dict[str, Any]:
    def word() -> str:
        return "".join(source.choices("abABé%", k=source.randint(0, 4)))

    numbers = [0, 1, 2, 3, 2.5, "x", True, None, [1, 3], []]
    drawn = {
        "user": f"u{source.randrange(4)}", "price": source.choice(numbers), "ceiling": source.choice(numbers),
        "city": source.choice("ab"), "town": source.choice(["a", "b", 1, ["a", "b"]]), "big": 2**60 + len(word()),
        "name": source.choice([word(), word(), f"10.{source.randrange(4)}.0.1", [word(), word()], 5, None]),
        "tags": source.choice([[], [word(), "b"], ["a", None, 2], "b"]), "active": source.choice([True, False, None]),
    }  # fmt: skip
    return {name: value for name, value in drawn.items() if source.random() < 0.9}


@settings(max_examples=12)
@given(st.integers(0, 1 << 40))
def test_a_mixture_of_forms_means_what_its_filters_mean(seed: int) -> None:
    source = Random(seed)
    texts = [text(source) for _ in range(source.choice([3, 40]))]
    events = [event(source) for _ in range(8)]
    filters = [Filter.parse(one) for one in texts]
    expected = [[id for id, filter in enumerate(filters) if filter.matches(one)] for one in events]
    index = Index()
    index.add_many(enumerate(texts))
    lines = [json.dumps(one).encode() for one in events]
    assert [index.match(one) for one in events] == expected
    assert [index.match(line) for line in lines] == expected
    together = [(number, id) for number, ids in enumerate(expected) for id in ids]
    assert sorted(pairs(index.match_batch(events))) == together
    assert sorted(pairs(index.match_batch(lines))) == together
