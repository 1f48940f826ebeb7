"""What matching means, rule by rule: the examples of the design and the corners beside them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given

from tests import oracle
from tests.strategies import events, expressions
from whimbrel import Filter
from whimbrel.model import expression as x
from whimbrel.model.values import Timestamp

NAN = math.nan
T1, T2 = Timestamp(1), Timestamp(2)


def outcome(text: str, event: dict[str, Any]) -> str:
    """TRUE if the filter matches, FALSE if its opposite does, else UNKNOWN: for events with at most one binding."""
    if Filter.parse(text).matches(event):
        return "TRUE"
    return "FALSE" if Filter.parse(f"NOT ({text})").matches(event) else "UNKNOWN"


DESIGN = [
    ("price > 10 AND price < 20", {"price": [5, 30]}, False),
    ("NOT (a > 10 AND a < 20)", {"a": [5, 15]}, True),
    ("a > 10 AND a < 20", {"a": [5, 15]}, True),
    ("a != 5", {"a": [5, 30]}, True),
    ("t CONTAINS NONE ('x')", {"t": ["x", "y"]}, False),
    ("NOT (t CONTAINS 'x')", {"t": ["x", "y"]}, False),
    ("NOT (t CONTAINS 'x')", {}, False),
    ("t CONTAINS NONE ('x')", {}, False),
    ("t CONTAINS 'x'", {}, False),
    ("a = 5 AND a = 6", {"a": [5, 6]}, False),
    ("a CONTAINS ALL (5, 6)", {"a": [5, 6]}, True),
    ("a < b", {"a": [9, 1], "b": [0, 2]}, True),
    ("a < b", {"a": [9, 8], "b": [0, 2]}, False),
    ("a = a", {"a": 0}, True),
    ("a = a", {"a": None}, False),
    ("a = a", {}, False),
    ("a = 1 OR a != 1", {"a": 2}, True),
    ("a = 1 OR a != 1", {}, False),
    ("a = NULL", {"a": None}, False),
    ("a = NULL", {"a": 1}, False),
    ("NOT (a = NULL)", {"a": 1}, False),
    ("a IN (1, NULL)", {"a": 1}, True),
    ("a IN (1, NULL)", {"a": 2}, False),
    ("a NOT IN (1, NULL)", {"a": 2}, False),
    ("a BETWEEN 5 AND 1", {"a": 3}, False),
    ("a != 5", {"a": True}, True),
    ("a NOT LIKE 'x%'", {"a": True}, True),
    ("active", {"active": True}, True),
    ("active", {"active": 1}, False),
    ("5 < a", {"a": 6}, True),
    ("TRUE", {}, True),
    ("FALSE", {}, False),
    ("1 < 2", {}, True),
    ("a > 3 AND a < 4", {"a": 3.5}, True),
    ("price < limit_price", {"price": 1, "limit_price": 2}, True),
]


@pytest.mark.parametrize(("text", "event", "expected"), DESIGN, ids=[f"{t} {e}" for t, e, _ in DESIGN])
def test_the_examples_of_the_design(text: str, event: dict[str, Any], expected: bool) -> None:
    assert Filter.parse(text).matches(event) is expected


def test_satisfiability_in_the_design() -> None:
    assert not Filter.parse("a = 5 AND a = 6").is_satisfiable()
    assert Filter.parse("a CONTAINS ALL (5, 6)").is_satisfiable()
    assert Filter.parse("a > 3 AND a < 4").is_satisfiable()
    assert not Filter.parse("a = 1 OR a != 1").is_always_true()
    assert Filter.parse("NOT (t CONTAINS 'x')") == Filter.parse("t CONTAINS NONE ('x')")


# The outcome of a predicate on an attribute that is missing, null, or holds one value of each type.
STATES: list[Any] = [[], None, True, 5, "x", T1]
TABLE = {
    "a = 5": "UUFTFF",
    "a != 5": "UUTFTT",
    "a = TRUE": "UUTFFF",
    "a = 'x'": "UUFFTF",
    "a IN (5, 'x')": "UUFTTF",
    "a NOT IN (5, 'x')": "UUTFFT",
    "a IN (5, NULL)": "UUUTUU",
    "a < 9": "UUUTUU",
    "a > 9": "UUUFUU",
    "a BETWEEN 1 AND 9": "UUUTUU",
    "a <= 'x'": "UUUUTU",
    "a < FALSE": "UUUUUU",
    "a >= TIMESTAMP '1970-01-01'": "UUUUUT",
    "a LIKE 'x%'": "UUFFTF",
    "a LIKE '_'": "UUFFTF",
    "a NOT LIKE 'x%'": "UUTTFT",
    "a STARTS WITH 'x'": "UUFFTF",
    "a ENDS WITH 'x'": "UUFFTF",
    "a RLIKE 'x'": "UUFFTF",
    "a IN CIDR '10.0.0.0/8'": "UUFFFF",
    "a = NULL": "UUUUUU",
    "a CONTAINS 5": "UUFTFF",
    "a CONTAINS ANY (5, 'x')": "UUFTTF",
    "a CONTAINS ALL (5, 'x')": "UUFFFF",
    "a CONTAINS NONE (5, 'x')": "UUTFFT",
    "a CONTAINS NULL": "UTFFFF",
    "a CONTAINS ANY (NULL, 5)": "UTFTFF",
    "a CONTAINS ALL (NULL, 5)": "UUFFFF",
    "a CONTAINS NONE (NULL)": "UFTTTT",
    "a IS NULL": "TTFFFF",
    "a IS NOT NULL": "FFTTTT",
    "a IS MISSING": "TFFFFF",
    "a IS NOT MISSING": "FTTTTT",
    "a = a": "UUTTTT",
    "a != a": "UUFFFF",
    "a <= a": "UUUTTT",
    "a < a": "UUUFFF",
}


@pytest.mark.parametrize("text", TABLE)
def test_the_outcome_of_every_predicate_in_every_state(text: str) -> None:
    found = "".join(outcome(text, {"a": state})[0] for state in STATES)
    assert found == TABLE[text]


KLEENE = {"T": "1 = 1", "F": "1 = 2", "U": "a = 1"}  # a is missing
AND = {"TT": "T", "TF": "F", "TU": "U", "FF": "F", "FU": "F", "UU": "U"}


@pytest.mark.parametrize(("pair", "result"), AND.items())
def test_and_or_and_not_follow_kleene(pair: str, result: str) -> None:
    for left, right in (pair, pair[::-1]):
        assert outcome(f"{KLEENE[left]} AND {KLEENE[right]}", {})[0] == result
    opposite = str.maketrans("TF", "FT")
    for left, right in (pair.translate(opposite), pair[::-1].translate(opposite)):
        assert outcome(f"{KLEENE[left]} OR {KLEENE[right]}", {})[0] == result.translate(opposite)
        assert outcome(f"NOT ({KLEENE[left]} OR {KLEENE[right]})", {})[0] == result


@given(expressions)
def test_not_twice_is_nothing(expression: x.Expression) -> None:
    assert Filter(x.Not(x.Not(expression))) == Filter(expression)


@given(expressions, events())
def test_a_filter_and_its_opposite_are_true_and_false_under_some_binding(
    expression: x.Expression, event: dict[str, Any]
) -> None:
    found = oracle.outcomes(expression, event)
    assert Filter(expression).matches(event) == (True in found)
    assert Filter(x.Not(expression)).matches(event) == (False in found)


@pytest.mark.parametrize(
    ("text", "event", "expected"),
    [
        # Numbers: integers are exact, everything else is the nearest binary64, compared by exact value.
        ("a = 9007199254740993", {"a": 2**53 + 1}, True),
        ("a = 9007199254740993", {"a": 2**53}, False),
        ("a = 9007199254740993", {"a": 2.0**53}, False),
        ("a < 9007199254740993", {"a": 2.0**53}, True),
        ("a = 1", {"a": 1.0}, True),
        ("a = 0", {"a": -0.0}, True),
        ("a >= 0", {"a": -0.0}, True),
        ("a < 0", {"a": -0.0}, False),
        ("a > 1e308", {"a": math.inf}, True),
        ("a < 0", {"a": -math.inf}, True),
        ("a = 0.1", {"a": 0.1}, True),
        # NaN is null.
        ("a = a", {"a": NAN}, False),
        ("a IS NULL", {"a": NAN}, True),
        ("a IS MISSING", {"a": NAN}, False),
        ("a CONTAINS NULL", {"a": [NAN, 1]}, True),
        # Booleans are no numbers.
        ("a = 1", {"a": True}, False),
        ("a = TRUE", {"a": 1}, False),
        ("a < 2", {"a": True}, False),
        ("NOT (a < 2)", {"a": True}, False),
        # Strings are never coerced and compare by code point.
        ("a = 5", {"a": "5"}, False),
        ("a = '5'", {"a": 5}, False),
        ("a = ''", {"a": ""}, True),
        ("a IS NULL", {"a": ""}, False),
        ("a < '\U0001f600'", {"a": "\uffff"}, True),
        ("a LIKE '_'", {"a": "\U0001f600"}, True),
        ("a > ''", {"a": "\0"}, True),
        # Lists are sets, nested lists flatten, an empty list is missing.
        ("a IS MISSING", {"a": []}, True),
        ("a IS MISSING", {"a": [[], [[]]]}, True),
        ("a IS MISSING", {"a": {}}, True),
        ("a CONTAINS ALL (1, 2, 3)", {"a": [1, [2, [3]]]}, True),
        ("a IS NULL", {"a": [None, None]}, True),
        ("a IS NULL", {"a": [None, 1]}, False),
        ("a = 1", {"a": [None, 1]}, True),
        # Dotted and nested keys are one attribute.
        ("d.x = 1", {"d": {"x": 1}}, True),
        ("d.x = 1", {"d.x": 1}, True),
        ("d.x CONTAINS ALL (1, 2)", {"d.x": 1, "d": {"x": 2}}, True),
        ("d.e.x = 1", {"d.e": {"x": 1}}, True),
        ("d = 1", {"d": {"x": 1}}, False),
        ("d IS MISSING", {"d": {"x": 1}}, True),
        # Timestamps: strings are none by themselves.
        ("a = TIMESTAMP '1970-01-01'", {"a": Timestamp(0)}, True),
        ("a = TIMESTAMP '1970-01-01'", {"a": "1970-01-01"}, False),
        ("a > TIMESTAMP '1970-01-01'", {"a": T1}, True),
        ("a = TIMESTAMP '1970-01-01T01:00:00+01:00'", {"a": Timestamp(0)}, True),
    ],
)
def test_values_and_attributes(text: str, event: dict[str, Any], expected: bool) -> None:
    assert Filter.parse(text).matches(event) is expected


ORDERS = {"items": [{"sku": "A", "n": 1}, {"sku": "B", "n": 9}]}


@pytest.mark.parametrize(
    ("text", "event", "expected"),
    [
        ("items.sku = 'A' AND items.n = 1", ORDERS, True),
        ("items.sku = 'A' AND items.n = 9", ORDERS, False),
        ("items.sku = 'A' AND items.n > 0", ORDERS, True),
        ("items.sku = 'A' AND items.sku = 'B'", ORDERS, False),
        ("items.sku CONTAINS ALL ('A', 'B')", ORDERS, True),
        ("items.sku = 'A' AND items.n CONTAINS 9", ORDERS, True),  # a set test sees all elements
        ("items.sku = 'A' AND items.n IS NOT NULL", ORDERS, True),
        ("NOT (items.sku = 'A' AND items.n = 1)", ORDERS, True),
        ("NOT (items.sku = 'A' OR items.n = 9)", ORDERS, False),
        ("items.sku = 'A' OR items.n = 9", ORDERS, True),
        # An element without the attribute leaves it without a value.
        ("d.x = d.x AND d.y = 1", {"d": [{"x": 1}, {"y": 1}]}, False),
        ("d.x IS NOT NULL AND d.y = 1", {"d": [{"x": 1}, {"y": 1}]}, True),
        ("d.x = 1 AND d.y = 1", {"d": [{"x": 1}, {"y": 1}]}, False),
        # A value outside of the array goes with every element.
        ("d.x = 1 AND d.y = 1", {"d": [{"y": 1}], "d.x": 1}, True),
        ("d.x = 2 AND d.y = 1", {"d": [{"x": 2}, {"y": 1}], "d.x": [2]}, True),
        ("a = 1 AND d.y = 1", {"d": [{"x": 1}, {"y": 1}], "a": 1}, True),
        # Different arrays are free of each other; arrays in arrays are not.
        ("d.x = 1 AND e.x = 2", {"d": [{"x": 1}, {"x": 2}], "e": [{"x": 1}, {"x": 2}]}, True),
        ("d.x = 1 AND d.e.x = 3", {"d": [{"x": 1, "e": [{"x": 2}, {"x": 3}]}, {"x": 4}]}, True),
        ("d.x = 4 AND d.e.x = 3", {"d": [{"x": 1, "e": [{"x": 2}, {"x": 3}]}, {"x": 4}]}, False),
        ("d.e.x = 2 AND d.e.y = 3", {"d": [{"e": [{"x": 2}]}, {"e": [{"y": 3}]}]}, False),
        # Lists in lists are one array, and so are a dotted and a nested one.
        ("d.x = 1 AND d.y = 2", {"d": [[{"x": 1}], [{"y": 2}]]}, False),
        ("d.e.x = 1 AND d.e.y = 2", {"d.e": [{"x": 1}], "d": {"e": [{"y": 2}]}}, False),
        ("d.e.x = 1 AND d.e.y = 2", {"d.e": [{"x": 1, "y": 2}], "d": {"e": [{"y": 2}]}}, True),
        # Scalars beside objects are values of the array's own attribute.
        ("d = 5 AND d.x = 1", {"d": [5, {"x": 1}]}, True),
        # Attributes of one element compare with each other.
        ("d.x < d.y", {"d": [{"x": 1, "y": 0}, {"x": 3, "y": 2}]}, False),
        ("d.x < d.y", {"d": [{"x": 1, "y": 0}, {"x": 1, "y": 2}]}, True),
        ("d.x < a AND d.y = 1", {"d": [{"x": 1}, {"x": 9, "y": 1}], "a": 5}, False),
    ],
)
def test_attributes_below_one_array_come_from_one_element(text: str, event: dict[str, Any], expected: bool) -> None:
    filter = Filter.parse(text)
    assert filter.matches(event) is expected
    assert oracle.matches(filter.expression, event) is expected


@pytest.mark.parametrize(
    ("text", "event", "expected"),
    [
        ("a = b", {"a": 1, "b": 1.0}, True),
        ("a = b", {"a": 1, "b": True}, False),
        ("a != b", {"a": 1, "b": True}, True),
        ("a != b", {"a": 1, "b": "1"}, True),
        ("a < b", {"a": 1, "b": "2"}, False),
        ("NOT (a < b)", {"a": 1, "b": "2"}, False),
        ("a < b", {"a": False, "b": True}, False),
        ("a <= b", {"a": True, "b": True}, False),
        ("a < b", {"a": "a", "b": "b"}, True),
        ("a <= b", {"a": 2, "b": 2}, True),
        ("a >= b", {"a": 1, "b": 2}, False),
        ("a > b", {"a": 2, "b": 1}, True),
        ("a < b", {"a": T1, "b": T2}, True),
        ("a = b", {"a": 1}, False),
        ("a != b", {"a": 1}, False),
        ("a = b", {"a": None, "b": None}, False),
        ("a > b AND b > c", {"a": 3, "b": [1, 2], "c": 1}, True),
        ("a < b AND b < a", {"a": [1, 3], "b": [2]}, False),
        ("a < b AND a = 9", {"a": [1, 9], "b": 5}, False),
        ("a < b AND a CONTAINS 9", {"a": [1, 9], "b": 5}, True),
    ],
)
def test_attributes_compare_with_each_other(text: str, event: dict[str, Any], expected: bool) -> None:
    assert Filter.parse(text).matches(event) is expected


def test_strings_are_timestamps_only_where_the_reader_is_told() -> None:
    later = Filter.parse("at > TIMESTAMP '2026-01-31T12:00:00Z'")
    event = {"at": "2026-01-31T14:00:00+01:00", "name": "2026-01-31"}
    assert not later.matches(event)
    assert later.matches(event, timestamps=["at"])
    assert Filter.parse("name = '2026-01-31'").matches(event, timestamps=["at"])
