"""A schema that grows in any order: what was valid stays valid, and a refused extension leaves no trace."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from whimbrel import Filter, Schema
from whimbrel.model.schema import Enumeration, FilterTypeError, Hierarchy, Number, OrderedEnumeration, SchemaError

NAMES = st.sampled_from(["a", "b", "c"])
DOMAINS = st.sampled_from(
    [
        Number("integer", 0, 3),
        Number("float"),
        Enumeration(("x", "y")),
        OrderedEnumeration(("x", "y", "z"), (("x", "y"),)),
        Hierarchy({"x": ("y", "z")}),
    ]
)
USES = st.sampled_from(["mandatory", "optional", "mandatory multiple", "optional multiple"])
VALUES = st.sampled_from([0, 2, 5, 1.5, "x", "y", "z", "w", None])
FILTERS = [f"{name} {op} {value}" for name in "abc" for op in ("=", "<", ">=") for value in ("2", "'x'", "'y'")]


class Publishers(RuleBasedStateMachine):
    """The model is three dicts; an extension that it does not allow must be refused."""

    @initialize()
    def begin(self) -> None:
        self.schema = Schema()
        self.domains: dict[str, Any] = {}
        self.attributes: dict[str, str] = {}
        self.types: dict[str, dict[str, str]] = {}
        self.version = 0
        self.valid: list[dict[str, Any]] = []
        self.fitting: dict[str, str] = {}

    def expect(self, allowed: bool, new: bool, step: Any) -> bool:
        before = self.schema.to_document()
        try:
            changed = step()
        except SchemaError:
            assert not allowed
            assert self.schema.to_document() == before
            return False
        assert allowed
        assert changed == new
        self.version += new
        return True

    @rule(name=NAMES, domain=DOMAINS)
    def create_domain(self, name: str, domain: Any) -> None:
        known = self.domains.get(name)
        step = self.expect(known in (None, domain), known is None, lambda: self.schema.create_domain(name, domain))
        if step:
            self.domains[name] = domain

    @rule(name=NAMES, domain=st.one_of(NAMES, st.sampled_from(["string", "integer"])))
    def create_attribute(self, name: str, domain: str) -> None:
        known = self.attributes.get(name)
        there = domain in self.domains or domain in ("string", "integer")
        allowed = known == domain or (known is None and there)
        if self.expect(allowed, known is None, lambda: self.schema.create_attribute(name, domain)):
            self.attributes[name] = domain

    @rule(name=NAMES, uses=st.dictionaries(NAMES, USES, max_size=3))
    def create_type(self, name: str, uses: dict[str, str]) -> None:
        known = self.types.get(name)
        allowed = uses.keys() <= self.attributes.keys() and known in (None, uses)
        if self.expect(allowed, known is None, lambda: self.schema.create_type(name, uses)):
            self.types[name] = dict(uses)

    @rule(name=NAMES, attribute=NAMES, use=USES)
    def extend_type(self, name: str, attribute: str, use: str) -> None:
        known = self.types.get(name, {}).get(attribute)
        there = name in self.types and attribute in self.attributes
        allowed = there and (known == use or (known is None and use.startswith("optional")))
        if self.expect(allowed, known is None, lambda: self.schema.extend_type(name, attribute, use)):
            self.types[name][attribute] = use

    @rule(types=st.lists(NAMES, max_size=2), values=st.dictionaries(NAMES, st.lists(VALUES, max_size=2), max_size=3))
    def publish(self, types: list[str], values: dict[str, Any]) -> None:
        event = {"event_type": types, **values}
        if not self.schema.violations(event):
            self.valid.append(event)

    @rule(text=st.sampled_from(FILTERS))
    def subscribe(self, text: str) -> None:
        with suppress(FilterTypeError):
            self.fitting[text] = str(Filter.parse(text, schema=self.schema))

    @invariant()
    def nothing_valid_becomes_invalid(self) -> None:
        if not hasattr(self, "schema"):
            return
        assert self.schema.version == self.version
        assert [event for event in self.valid if self.schema.violations(event)] == []
        assert {text: str(Filter.parse(text, schema=self.schema)) for text in self.fitting} == self.fitting

    @invariant()
    def the_document_says_it_all(self) -> None:
        if not hasattr(self, "schema"):
            return
        document = self.schema.to_document()
        again = Schema.from_document(json.loads(json.dumps(document)))
        assert again == self.schema
        assert again.version == self.schema.version
        assert document["attributes"] == self.attributes
        assert document["types"] == self.types


TestPublishers = Publishers.TestCase
TestPublishers.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
