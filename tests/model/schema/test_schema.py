"""Schemas: events against views (rules R1 to R3), domains, and the four rules of extension."""

from __future__ import annotations

import itertools
import re
import threading
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.schema.domain_semantics import orders, trees
from whimbrel import Schema
from whimbrel.model.errors import LimitExceeded, WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.schema import (
    ConflictingExtension,
    Enumeration,
    Hierarchy,
    InvalidEvent,
    InvalidSchema,
    Number,
    OrderedEnumeration,
    SchemaError,
    Use,
    attribute_set,
    mandatory_set,
    unique_set,
)
from whimbrel.model.schema.documents import to_text
from whimbrel.model.values import Timestamp


@pytest.fixture
def paper() -> Schema:
    """The antiques and furniture of the paper ([LeSub] s.2)."""
    schema = Schema()
    schema.create_domain("period", Enumeration(("XV", "XVI", "XVII")))
    schema.create_domain("furniture_category", Hierarchy({"furniture": ("table", "chair")}))
    for name, domain in {
        "price": "float",
        "quantity": "integer",
        "period": "period",
        "furniture_category": "furniture_category",
        "dealer": "string",
    }.items():
        schema.create_attribute(name, domain)
    schema.create_type("antiques", {"price": "mandatory", "quantity": "optional", "period": "mandatory"})
    schema.create_type(
        "furniture", {"price": "optional multiple", "furniture_category": "mandatory", "quantity": "mandatory"}
    )
    return schema


E1 = {
    "event_type": ["antiques", "furniture"],
    "price": 200,
    "quantity": 2,
    "period": "XVI",
    "furniture_category": "table",
}


def found(schema: Schema, event: dict[str, Any]) -> list[tuple[str, str]]:
    return [(violation.rule, violation.path) for violation in schema.violations(event)]


def test_the_papers_event_of_two_types_is_valid(paper: Schema) -> None:
    assert paper.violations(E1) == []
    assert paper.read(E1).values("furniture_category") == ("table",)


def test_the_papers_event_without_a_mandatory_attribute_breaks_r2_alone(paper: Schema) -> None:
    event = {name: value for name, value in E1.items() if name != "furniture_category"}
    assert found(paper, event) == [("R2", "furniture_category")]
    with pytest.raises(InvalidEvent, match=r"R2: Expected .*'table', but got nothing - at furniture_category"):
        paper.read(event)


def test_views_merge_with_mandatory_over_optional_and_multiple_over_unique(paper: Schema) -> None:
    view = {name: str(use) for name, use in paper.view(["furniture", "antiques"]).items()}
    assert view == {
        "price": "mandatory multiple",
        "quantity": "mandatory",
        "period": "mandatory",
        "furniture_category": "mandatory",
    }
    assert str(paper.view(["furniture"])["price"]) == "optional multiple"
    with pytest.raises(SchemaError, match="did you mean 'antiques'"):
        paper.view(["antique"])


def test_a_declared_view_may_leave_out_what_is_optional_in_all_of_its_types(paper: Schema) -> None:
    full = paper.view(["antiques", "furniture"])
    assert paper.declare_view(["antiques", "furniture"], full).uses == full
    view = paper.declare_view(["antiques"], {"price": "mandatory", "period": "mandatory"})
    assert view.types == {"antiques"} and "quantity" not in view.uses


@pytest.mark.parametrize(
    ("uses", "problems"),
    [
        ({"price": "mandatory"}, ["Property 1: Expected a mandatory attribute, but got none - at uses.period"]),
        ({"price": "mandatory", "period": "optional"}, ["Property 1: Expected 'mandatory', but got 'optional'"]),
        ({"price": "mandatory multiple", "period": "mandatory"}, ["Property 3: Expected 'mandatory', but got"]),
        (
            {"price": "mandatory", "period": "mandatory", "dealer": "optional", "furniture_category": "optional"},
            ["Property 2: Expected an attribute of antiques, but got 'dealer'", "Property 2:.*furniture_category"],
        ),
    ],
)
def test_a_declared_view_without_one_of_the_three_properties_is_refused(
    paper: Schema, uses: dict[str, str], problems: list[str]
) -> None:
    with pytest.raises(InvalidSchema) as caught:
        paper.declare_view(["antiques"], uses)
    assert len(caught.value.problems) == len(problems)
    for problem, expected in zip(caught.value.problems, problems, strict=True):
        assert re.search(expected, str(problem))


def test_a_declared_view_needs_known_types(paper: Schema) -> None:
    with pytest.raises(InvalidSchema, match="did you mean 'antiques'"):
        paper.declare_view(["antique"], {})
    with pytest.raises(InvalidSchema, match="at least one event type"):
        paper.declare_view([], {})


def test_the_set_functions_of_a_type(paper: Schema) -> None:
    furniture = paper.types["furniture"]
    assert attribute_set(furniture) == {"price", "furniture_category", "quantity"}
    assert mandatory_set(furniture) == {"furniture_category", "quantity"}
    assert unique_set(furniture) == {"furniture_category", "quantity"}


@given(st.data())
def test_the_merged_view_has_the_three_properties_and_only_optional_attributes_can_go(data: st.DataObject) -> None:
    uses = st.builds(Use, st.booleans(), st.booleans())
    types = data.draw(st.lists(st.dictionaries(st.sampled_from("abcd"), uses), min_size=1, max_size=3))
    schema = Schema()
    for name in "abcd":
        schema.create_attribute(name, "integer")
    for number, one in enumerate(types):
        schema.create_type(f"t{number}", one)
    chosen = data.draw(st.sets(st.sampled_from(sorted(schema.types)), min_size=1))
    full = schema.view(chosen)
    schema.declare_view(chosen, full)
    mandatory = frozenset[str]().union(*(mandatory_set(schema.types[name]) for name in chosen))
    for gone in full:
        rest = {name: use for name, use in full.items() if name != gone}
        if gone in mandatory:
            with pytest.raises(InvalidSchema, match="Property 1"):
                schema.declare_view(chosen, rest)
        else:
            schema.declare_view(chosen, rest)


def test_r1_needs_known_types(paper: Schema) -> None:
    assert found(paper, {"price": 1}) == [("R1", "event_type")]
    assert found(paper, {"event_type": [], "price": 1}) == [("R1", "event_type")]
    assert found(paper, {"event_type": None, "price": 1}) == [("R1", "event_type")]
    assert found(paper, {"event_type": [5, "antique"]}) == [("R1", "event_type"), ("R1", "event_type")]
    assert "did you mean 'antiques'?" in str(paper.violations({"event_type": "antique"})[0])


def test_r2_needs_one_value_of_the_domain_where_it_is_unique(paper: Schema) -> None:
    assert found(paper, {**E1, "price": [1, 2]}) == []
    assert found(paper, {**E1, "price": [1, 1.0]}) == []
    assert found(paper, {**E1, "quantity": [1, 2]}) == [("R2", "quantity")]
    assert found(paper, {**E1, "quantity": [1, 1.0]}) == []
    assert found(paper, {**E1, "quantity": 1.5}) == [("R2", "quantity")]
    assert found(paper, {**E1, "quantity": "2"}) == [("R2", "quantity")]
    assert found(paper, {**E1, "period": "XVIII"}) == [("R2", "period")]
    assert found(paper, {**E1, "price": True}) == [("R2", "price")]


def test_r3_has_no_other_attributes(paper: Schema) -> None:
    assert found(paper, {**E1, "dealer": "Ann"}) == [("R3", "dealer")]
    (violation,) = paper.violations(
        {"event_type": "antiques", "price": 1, "period": "XV", "furniture_category": "chair"}
    )
    assert str(violation).endswith("but got 'furniture_category' (an attribute of furniture) - at furniture_category")
    assert found(paper, {**E1, "price": {"net": 1}}) == [("R2", "price"), ("R3", "price.net")]


def test_a_null_is_no_value(paper: Schema) -> None:
    assert found(paper, {**E1, "price": None}) == [("R2", "price")]
    assert found(paper, {**E1, "price": [None, 3]}) == []
    assert found(paper, {"event_type": "antiques", "price": 1, "period": "XV", "quantity": None}) == []
    assert paper.read({**E1, "furniture_category": ["table", None]}).values("furniture_category") == ("table", None)


def test_every_violation_is_reported_at_once(paper: Schema) -> None:
    event = {"event_type": ["antiques", "furnitur"], "price": "dear", "quantity": [1, 2], "colour": "red"}
    with pytest.raises(InvalidEvent) as caught:
        paper.read(event, row=7)
    assert [(v.rule, v.path) for v in caught.value.violations] == [
        ("R1", "event_type"),
        ("R2", "period"),
        ("R2", "price"),
        ("R2", "quantity"),
        ("R3", "colour"),
    ]
    assert caught.value.row == 7
    assert "event 7, but got 5 violations" in str(caught.value)
    assert str(caught.value).count("\n  R") == 5


def test_without_a_type_values_are_still_judged(paper: Schema) -> None:
    assert found(paper, {"price": "dear", "colour": "red"}) == [("R1", "event_type"), ("R2", "price"), ("R3", "colour")]


def test_elements_of_arrays_keep_together() -> None:
    schema = Schema(default_type="order")
    schema.create_domain("size", OrderedEnumeration(("S", "M", "L"), (("S", "M", "L"),)))
    schema.create_attribute("items.size", "size")
    schema.create_attribute("items.sku", "string")
    schema.create_type("order", {"items.size": "optional multiple", "items.sku": "optional multiple"})
    from whimbrel import Filter

    event = {"items": [{"sku": "a", "size": "S"}, {"sku": "b", "size": "L"}]}
    assert Filter.parse("items.sku = 'a' AND items.size < 'M'", schema=schema).matches(event)
    assert not Filter.parse("items.sku = 'b' AND items.size < 'M'", schema=schema).matches(event)
    assert Filter.parse("event_type = 'order'", schema=schema).matches(event)


def test_timestamps_are_read_from_text() -> None:
    schema = Schema(default_type="tick")
    schema.create_attribute("at", "timestamp")
    schema.create_type("tick", {"at": "mandatory"})
    assert schema.read({"at": "1970-01-01T00:00:01Z"}).values("at") == (Timestamp(1_000_000_000),)
    assert found(schema, {"at": ["1970-01-01", "1970-01-01T00:00Z"]}) == [], "one instant, written twice"
    assert found(schema, {"at": "soon"}) == [("R2", "at")]
    assert found(schema, {"at": 5}) == [("R2", "at")]


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


CONFLICTS = [
    (lambda s: s.create_domain("period", Enumeration(("XV",))), "'XV', 'XVI', 'XVII'.*makes it enumerated .*'XV'"),
    (lambda s: s.create_domain("integer", Number("float")), "to stay integer, but the extension makes it float"),
    (lambda s: s.create_attribute("price", "integer"), "of domain 'float', but .* of domain 'integer'"),
    (lambda s: s.create_type("antiques", {"price": "optional"}), "price: mandatory.*makes it {price: optional}"),
    (lambda s: s.extend_type("furniture", "price", "optional"), "stay optional multiple.*makes it optional"),
]  # fmt: skip

REFUSED = [
    (lambda s: s.create_attribute("weight", "kilograms"), "Expected a domain, but got 'kilograms'"),
    (lambda s: s.create_attribute("weight", "flaot"), "did you mean 'float'"),
    (lambda s: s.create_attribute("weight", ["float"]), "Expected a domain"),
    (lambda s: s.create_attribute(None, "float"), "Expected a name"),
    (lambda s: s.create_attribute("event_type", "string"), "holds the types"),
    (lambda s: s.create_type("cars", {"wheels": "mandatory"}), "Expected an attribute, but got 'wheels'"),
    (lambda s: s.create_type("cars", {"prise": "mandatory"}), "did you mean 'price'"),
    (lambda s: s.create_type("cars", {"price": "always"}), "but got 'always'"),
    (lambda s: s.extend_type("antiques", "dealer", "mandatory"), "Expected an optional attribute"),
    (lambda s: s.extend_type("antique", "dealer"), "did you mean 'antiques'"),
    (lambda s: s.extend_type("antiques", "sealer"), "did you mean 'dealer'"),
    (lambda s: s.create_domain("x", {"kind": "enumerated", "values": []}), "at domains.x.values"),
]


@pytest.mark.parametrize(("step", "message"), [*CONFLICTS, *REFUSED], ids=[m for _, m in [*CONFLICTS, *REFUSED]])
def test_a_refused_extension_changes_nothing(paper: Schema, step: Any, message: str) -> None:
    before, version = paper.to_document(), paper.version
    with pytest.raises(SchemaError, match=message) as caught:
        step(paper)
    assert isinstance(caught.value, ConflictingExtension) == ((step, message) in CONFLICTS)
    assert (paper.to_document(), paper.version) == (before, version)


def test_the_four_rules_count_versions_and_repetition_does_not(paper: Schema) -> None:
    version = paper.version
    for step in (
        lambda: paper.create_domain("colour", Enumeration(("red", "green"))),
        lambda: paper.create_attribute("colour", "colour"),
        lambda: paper.extend_type("antiques", "colour", "optional multiple"),
        lambda: paper.create_type("paintings", {"colour": "mandatory", "price": "optional"}),
    ):
        assert step()
        version += 1
        assert paper.version == version
        assert not step(), "the same definition is no change"
        assert paper.version == version
    assert not paper.create_domain("colour", Enumeration(("green", "red"))), "in another order, but the same"


def test_a_whole_schema_is_added_or_nothing_of_it(paper: Schema) -> None:
    before = paper.to_document()
    with pytest.raises(SchemaError) as caught:
        paper.extend(
            {
                "attributes": {"price": "integer", "colour": "string"},
                "types": {"antiques": {"colour": "mandatory"}, "cars": {"colour": "mandatory"}},
            }
        )
    assert "2 problems" in str(caught.value)
    assert "'float'" in str(caught.value)
    assert "Expected an optional attribute" in str(caught.value)
    assert paper.to_document() == before
    assert paper.extend({"attributes": {"colour": "string"}, "types": {"antiques": {"price": "mandatory"}, "cars": {}}})
    assert paper.violations({"event_type": "cars"}) == []
    with pytest.raises(SchemaError, match="type_attribute"):
        paper.extend(Schema("type"))


def test_publishers_extend_at_the_same_time(paper: Schema) -> None:
    version = paper.version

    def publish(number: int) -> None:
        for step in range(50):
            paper.create_attribute(f"a{number}.{step}", "float")
            paper.extend_type("antiques", f"a{number}.{step}")
            paper.read({**E1, f"a{number}.{step}": 1})

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert paper.version == version + 400
    assert len(paper.view(["antiques"])) == 203


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda i: st.lists(i) | st.dictionaries(st.text(), i)
    )
)
def test_whatever_comes_gives_a_typed_error(item: Any) -> None:
    for read in (Schema.from_document, Schema.from_spark, Schema.from_json_schema):
        try:
            read(item)
        except WhimbrelError:
            continue
        assert isinstance(item, dict)
    if isinstance(item, dict):
        schema = Schema()
        schema.create_type("any", {})
        try:
            Event(item)
        except WhimbrelError:
            return
        assert schema.violations({**item, "event_type": "none"})


def test_an_empty_key_is_an_attribute_like_others() -> None:
    events = [{"": 1, "a": {"": "x"}}, {"": 2, "a": {"": "y"}}]
    schema = Schema.infer(events, values=2)
    again = Schema.from_document(tomllib.loads(to_text(schema.to_document())))
    assert again == schema
    for event in events:
        again.read(event)
