"""What a schema's domains mean, evaluated directly: by walking the order or the tree, with no codes and no sets.

Shares nothing with the product but the expression classes and the definitions. Filters and events come from small
pools, so that they meet.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from whimbrel import Schema
from whimbrel.model import expression as x
from whimbrel.model.schema import Hierarchy, OrderedEnumeration
from whimbrel.model.values import Timestamp

LETTERS = "abcdefgh"
ORDERS = ("<", "<=", ">", ">=")


@st.composite
def orders(draw: st.DrawFn) -> OrderedEnumeration:
    """A random partial order over a few letters, chains upwards in a random order of them."""
    values = draw(st.permutations(LETTERS[: draw(st.integers(2, 7))]))
    pairs = list(itertools.combinations(values, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=10))
    return OrderedEnumeration(tuple(draw(st.permutations(values))), tuple(chosen))


@st.composite
def totals(draw: st.DrawFn) -> OrderedEnumeration:
    values = draw(st.permutations(LETTERS[: draw(st.integers(2, 6))]))
    return OrderedEnumeration(tuple(sorted(values)), (tuple(values),))


@st.composite
def trees(draw: st.DrawFn) -> Hierarchy:
    """A random tree, or several, over a few letters."""
    values = draw(st.permutations(LETTERS[: draw(st.integers(2, 8))]))
    children: dict[str, list[str]] = {values[0]: []}
    for place, value in enumerate(values[1:], 1):
        parent = draw(st.integers(-1, place - 1))
        if parent >= 0:
            children.setdefault(values[parent], []).append(value)
        else:
            children.setdefault(value, [])
    return Hierarchy({parent: tuple(below) for parent, below in children.items()})


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """A schema with two attributes of each ordered domain, and one of every other kind; nothing mandatory."""
    schema = Schema()
    for name, domain in (("order", draw(orders())), ("total", draw(totals())), ("tree", draw(trees()))):
        schema.create_domain(name, domain)
        schema.create_attribute(name, name)
        schema.create_attribute(f"{name}.other", name)
    schema.create_domain("small", {"kind": "integer", "minimum": 0, "maximum": 6})
    schema.create_domain("colour", {"kind": "enumerated", "values": ["red", "green"]})
    kinds = {
        "n": "integer",
        "s": "small",
        "f": "float",
        "t": "string",
        "b": "boolean",
        "at": "timestamp",
        "c": "colour",
    }
    for name, domain in kinds.items():
        schema.create_attribute(name, domain)
    schema.create_type("any", dict.fromkeys(schema.attributes, "optional multiple"))
    return schema


MOMENTS = ["2026-01-01", "2026-01-01T00:00:00Z", "2026-01-02", "1999-12-31T23:59:59.5Z"]
POOLS: dict[str, list[Any]] = {
    "n": [*range(-2, 8), 2**63, -(2**70)],
    "s": list(range(7)),
    "f": [-1, 0, 0.5, 1, 2.5, 3],
    "t": ["", "a", "ab", "b", "ba"],
    "b": [True, False],
    "at": MOMENTS,
    "c": ["red", "green"],
}


def pool(schema: Schema, name: str) -> list[Any]:
    order = schema.order_of(name)
    return POOLS[name] if order is None else sorted(order.words)


@st.composite
def typed_predicates(draw: st.DrawFn, schema: Schema) -> x.Expression:
    """A predicate that may fit the schema; `incomparable` values are for the caller to leave out."""
    name = draw(st.sampled_from(sorted(schema.attributes)))
    domain = schema.attributes[name]
    value = st.sampled_from(pool(schema, name))
    shape = draw(st.integers(0, 9))
    if shape == 0:
        return x.IsNull(name) if draw(st.booleans()) else x.IsMissing(name)
    if shape == 1:
        others = sorted(other for other, its in schema.attributes.items() if its == domain)
        ops = sorted(domain.operators & {*ORDERS, "=", "!="})
        return x.CompareAttributes(name, draw(st.sampled_from(ops)), draw(st.sampled_from(others)))  # type: ignore[arg-type]
    if shape == 2:
        return x.In(name, tuple(draw(st.lists(value, min_size=1, max_size=3))))
    if shape == 3:
        quantifier = draw(st.sampled_from(["ALL", "ANY", "NONE"]))
        return x.Contains(name, quantifier, tuple(draw(st.lists(value, min_size=1, max_size=3))))  # type: ignore[arg-type]
    if name == "t" and shape in (4, 5):
        return draw(st.sampled_from([x.Like("t", "a%"), x.EndsWith("t", "a"), x.StartsWith("t", "b")]))
    ops = sorted(domain.operators & {*ORDERS, "=", "!="})
    return x.Compare(name, draw(st.sampled_from(ops)), draw(value))  # type: ignore[arg-type]


def typed_expressions(schema: Schema, leaves: int = 5) -> st.SearchStrategy[x.Expression]:
    def nested(inner: st.SearchStrategy[x.Expression]) -> st.SearchStrategy[x.Expression]:
        terms = st.lists(inner, min_size=1, max_size=3).map(tuple)
        return st.one_of(st.builds(x.Not, inner), st.builds(x.And, terms), st.builds(x.Or, terms))

    return st.recursive(typed_predicates(schema), nested, max_leaves=leaves)


@st.composite
def valid_events(draw: st.DrawFn, schema: Schema, most: int = 2) -> dict[str, Any]:
    event: dict[str, Any] = {"event_type": "any"}
    for name in draw(
        st.lists(st.sampled_from(sorted(schema.attributes)), unique=True, max_size=len(schema.attributes))
    ):
        values = draw(st.lists(st.sampled_from(pool(schema, name)), min_size=1, max_size=most))
        event[name] = values if most > 1 and draw(st.booleans()) else values[0]
        if draw(st.integers(0, 9)) == 0:
            event[name] = [None, *values] if most > 1 and draw(st.booleans()) else None
    return event


def matches(schema: Schema, expression: x.Expression, event: Mapping[str, Any]) -> bool:
    """Whether the expression is true under some binding of the event's values."""
    lists = {name: values if isinstance(values, list) else [values] for name, values in event.items()}
    sets = {name: [_meant(name, value) for value in values if value is not None] for name, values in lists.items()}
    picked = [name for name, values in sets.items() if values]
    picks = itertools.product(*(sets[name] for name in picked))
    return any(_eval(schema, expression, dict(zip(picked, pick, strict=True)), sets) is True for pick in picks)


def _meant(name: str, value: Any) -> Any:
    return Timestamp.parse(value) if name == "at" else value


def _eval(schema: Schema, e: x.Expression, binding: dict[str, Any], sets: dict[str, list[Any]]) -> bool | None:
    if isinstance(e, x.Not):
        inner = _eval(schema, e.term, binding, sets)
        return None if inner is None else not inner
    if isinstance(e, x.And | x.Or):
        results = [_eval(schema, term, binding, sets) for term in e.terms]
        absorbing = isinstance(e, x.Or)
        return absorbing if absorbing in results else None if None in results else not absorbing
    if isinstance(e, x.CompareAttributes):
        if e.left not in binding or e.right not in binding:
            return None
        return compare(schema, e.left, binding[e.left], e.op, binding[e.right])
    assert not isinstance(e, x.Constant)
    if isinstance(e, x.IsMissing):
        return e.attribute not in sets
    if isinstance(e, x.IsNull):
        return e.attribute not in binding
    if e.attribute not in binding:
        return None
    value = binding[e.attribute]
    if isinstance(e, x.Contains):
        has = [_meant(e.attribute, member) in sets[e.attribute] for member in e.values]
        return all(has) if e.quantifier == "ALL" else any(has) == (e.quantifier == "ANY")
    if isinstance(e, x.In):
        return value in [_meant(e.attribute, member) for member in e.values]
    if isinstance(e, x.Compare):
        return compare(schema, e.attribute, value, e.op, _meant(e.attribute, e.value))
    if isinstance(e, x.Like):
        return bool(value.startswith("a"))
    return bool(value.endswith(e.text) if isinstance(e, x.EndsWith) else value.startswith(e.text))  # type: ignore[union-attr]


def compare(schema: Schema, name: str, left: Any, op: str, right: Any) -> bool:
    """Whether `left op right` holds in the domain of an attribute; what is incomparable is false."""
    if op in ("=", "!="):
        return (left == right) == (op == "=")
    domain = schema.attributes[name]
    if isinstance(domain, OrderedEnumeration):
        links = {(low, high) for chain in domain.order for low, high in itertools.pairwise(chain)}
        below, above = _reaches(left, right, links), _reaches(right, left, links)
    elif isinstance(domain, Hierarchy):
        links = {(child, parent) for parent, children in domain.children.items() for child in children}
        below, above = _reaches(left, right, links), _reaches(right, left, links)
    else:
        below, above = left < right, left > right
    return {"<": below, "<=": below or left == right, ">": above, ">=": above or left == right}[op]


def _reaches(start: str, goal: str, links: set[tuple[str, str]]) -> bool:
    """Whether one or more steps lead from one value up to another."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        at = waiting.pop()
        for low, high in links:
            if low == at and high not in seen:
                seen.add(high)
                waiting.append(high)
    return goal in seen


def fits(schema: Schema, expression: x.Expression) -> bool:
    """Whether no bound is comparable with nothing, and no two bounds of one AND are incomparable."""
    if isinstance(expression, x.Not):
        return fits(schema, expression.term)
    if isinstance(expression, x.And | x.Or):
        if not all(fits(schema, term) for term in expression.terms):
            return False
        if isinstance(expression, x.Or):
            return True
        bounds = [
            t for t in expression.terms if isinstance(t, x.Compare) and t.op in ORDERS and schema.order_of(t.attribute)
        ]
        return all(
            one.attribute != two.attribute
            or (one.op[0] == two.op[0])
            or one.value == two.value
            or compare(schema, one.attribute, one.value, "<", two.value)
            or compare(schema, one.attribute, one.value, ">", two.value)
            for one, two in itertools.combinations(bounds, 2)
        )
    if isinstance(expression, x.Compare) and expression.op in ORDERS and schema.order_of(expression.attribute):
        name, value = expression.attribute, expression.value
        return any(
            compare(schema, name, value, "<", other) or compare(schema, name, value, ">", other)
            for other in pool(schema, name)
        )
    return True
