"""Domains: numbers, enumerations, orders and hierarchies, and the definitions that are refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given

from tests.model.schema.domain_semantics import orders, trees
from whimbrel import Schema
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.schema import (
    Enumeration,
    Hierarchy,
    Number,
    OrderedEnumeration,
    SchemaError,
    Use,
)

NUMBERS = [
    (Number("integer", 0, 10), [0, 10, 5.0], [-1, 11, 0.5, float("inf"), True, "5"]),
    (Number("integer"), [2**70, -1, 1e300], [0.5, float("-inf")]),
    (Number("float", minimum=0.5), [0.5, float("inf"), 2**80], [0.4, -1]),
    (Number("decimal", maximum=1), [0.123456, 1, -5], [1.01, float("-inf")]),
    (Number("decimal", scale=2), [0.1, 1.25, 3, -0.01, 12345678901.23], [0.125, 1e-3]),
]


@pytest.mark.parametrize(("domain", "inside", "outside"), NUMBERS, ids=[str(case[0]) for case in NUMBERS])
def test_numbers(domain: Number, inside: list[Any], outside: list[Any]) -> None:
    schema = Schema(default_type="any")
    schema.create_domain("number", domain)
    schema.create_attribute("n", "number")
    schema.create_type("any", {"n": "mandatory"})
    assert [n for n in inside if schema.violations({"n": n})] == []
    assert [n for n in outside if not schema.violations({"n": n})] == []


BAD = [
    (lambda: Number("integer", 0.5), "whole number"),
    (lambda: Number("float", 5, 3), "at most 3"),
    (lambda: Number("float", minimum=float("nan")), "Expected a number"),
    (lambda: Number("float", minimum=True), "Expected a number"),
    (lambda: Number("float", scale=2), "decimal domain only"),
    (lambda: Number("decimal", scale=-1), "from 0 to 300"),
    (lambda: Enumeration(()), "list of texts"),
    (lambda: Enumeration(("a", "a")), "'a' comes twice"),
    (lambda: Enumeration(("a", 5)), "Expected text"),  # type: ignore[arg-type]
    (lambda: Enumeration(("\ud800",)), "Expected text"),
    (lambda: OrderedEnumeration(("a", "b"), (("a", "b"), ("b", "a"))), "cycle"),
    (lambda: OrderedEnumeration(("a", "b"), (("a", "a"),)), "cycle"),
    (lambda: OrderedEnumeration(("a", "b"), (("a", "c"),)), "but got 'c'"),
    (lambda: OrderedEnumeration(("a", "b"), (("a",),)), "at least two values"),
    (lambda: OrderedEnumeration(("a", "b"), ()), "list of chains"),
    (lambda: Hierarchy({}), "children of each value"),
    (lambda: Hierarchy({"a": ("b",), "b": ("a",)}), "cycle"),
    (lambda: Hierarchy({"a": ("a",)}), "cycle"),
    (lambda: Hierarchy({"a": ("c",), "b": ("c",)}), "one parent of 'c', but got 'a' and 'b'"),
    (lambda: Hierarchy({"a": "bc"}), "list of texts"),  # type: ignore[dict-item]
    (lambda: Use.of("required", "x"), "'mandatory' or 'optional'"),
    (lambda: Use.of("mandatory many", "x"), "'mandatory' or 'optional'"),
    (lambda: Use.of(None, "x"), "but got None"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_definitions_are_refused(make: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        make()


def test_too_many_ordered_values_are_refused() -> None:
    values = tuple(map(str, range(10_001)))
    with pytest.raises(LimitExceeded):
        OrderedEnumeration(values, (values,))
    assert len(Hierarchy({"root": values}).words) == 10_002


@given(orders())
def test_codes_and_equality_depend_on_the_meaning_only(order: OrderedEnumeration) -> None:
    pairs = [pair for chain in order.order for pair in itertools.pairwise(chain)]
    again = OrderedEnumeration(tuple(reversed(order.values)), tuple(reversed([*pairs, *pairs])))
    assert again == order
    assert hash(again) == hash(order)
    assert again.codes == order.codes
    if len(order.covers) > 1:
        less = OrderedEnumeration(
            order.values, tuple((order.words[low], order.words[high]) for low, high in order.covers[1:])
        )
        assert less != order


@given(trees())
def test_the_tour_of_a_tree_puts_descendants_side_by_side(tree: Hierarchy) -> None:
    again = Hierarchy({parent: tuple(reversed(below)) for parent, below in reversed(tree.children.items())})  # type: ignore[call-overload]
    assert (again, again.codes) == (tree, tree.codes)
    for parent, children in tree.children.items():
        code = tree.codes[parent]
        for child in children:
            assert code < tree.codes[child] < tree.ends[code]
            assert tree.ends[tree.codes[child]] <= tree.ends[code]
