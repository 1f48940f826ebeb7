"""The integrated event schema of Le Subscribe: domains, attributes and event types, shared by all publishers.

The schema grows while it is used: a writer holds the lock and swaps all definitions at once; readers take the
definitions that they find. Codes of ordered values never change, because domains do not. See docs/papers.md.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.filter import Filter
from whimbrel.model.json_text import parse_json
from whimbrel.model.schema import documents, typed_filter
from whimbrel.model.schema.definitions import DeclaredView, SchemaDefinitions, Use, Uses, merge
from whimbrel.model.schema.diff import Change, changes
from whimbrel.model.schema.domains import Domain
from whimbrel.model.schema.errors import InvalidEvent, SchemaError, Violation, did_you_mean
from whimbrel.model.schema.infer import inferred
from whimbrel.model.schema.ordered import Ordered
from whimbrel.model.schema.other_systems import read_arrow, read_json_schema, read_spark
from whimbrel.model.schema.quick_check import QuickCheck
from whimbrel.model.schema.typed_event import TypedEvent, check_event

if TYPE_CHECKING:
    import os

    from whimbrel.model.expression import Expression

VIEWS_KEPT = 1_024
"""Views that are kept for the next event of the same types."""


class Schema:
    """Domains, attributes and event types.

    `type_attribute` is the attribute in which an event names its types; `default_type` is the type of events that
    name none. Extensions return whether they changed anything; a refused one changes nothing.

    >>> schema = Schema()
    >>> schema.create_attribute("price", "float")
    True
    >>> schema.create_type("antiques", {"price": "mandatory"})
    True
    >>> schema.read({"event_type": "antiques", "price": "dear"})
    Traceback (most recent call last):
    ...
    whimbrel.model.schema.errors.InvalidEvent: Expected a valid event. R2: Expected a number, but got 'dear' - at price
    """

    def __init__(self, type_attribute: str = "event_type", default_type: str | None = None) -> None:
        self._state = SchemaDefinitions(type_attribute, default_type)
        self._lock = threading.Lock()
        self._views: tuple[SchemaDefinitions, dict[frozenset[str], dict[str, Use]]] = (self._state, {})
        self._quick = QuickCheck(self._state)

    @property
    def version(self) -> int:
        """How many extensions there have been."""
        return self._state.version

    @property
    def type_attribute(self) -> str:
        """The attribute that holds the types of an event."""
        return self._state.type_attribute

    @property
    def default_type(self) -> str | None:
        """The type of events that name none."""
        default = self._state.default_type
        return default if default in self._state.types else None

    @property
    def own_type_attribute(self) -> str | None:
        """A second attribute that can name a type of the event; values that are no names of types do not count."""
        return self._state.own_type_attribute

    @property
    def domains(self) -> Mapping[str, Domain]:
        """The domains by name, with those that every schema has."""
        return self._state.domains

    @property
    def attributes(self) -> Mapping[str, Domain]:
        """The domain of each attribute."""
        return self._state.attributes

    @property
    def types(self) -> Mapping[str, Uses]:
        """How each event type uses its attributes."""
        return self._state.types

    def create_domain(self, name: str, domain: Domain | Mapping[str, object]) -> bool:
        """Create a domain from an object or from its definition in a document."""
        made = domain if isinstance(domain, Domain) else documents.read_domain(domain, f"domains.{name}")
        return self._step(lambda state: state.with_domain(name, made))

    def create_attribute(self, name: str, domain: str) -> bool:
        """Create an attribute of the domain of that name."""
        return self._step(lambda state: state.with_attribute(name, domain))

    def extend_type(self, type: str, attribute: str, use: Use | str = "optional") -> bool:
        """Give an event type one more attribute, which must be optional."""
        made = Use.of(use, f"types.{type}.{attribute}")
        return self._step(lambda state: state.with_use(type, attribute, made))

    def create_type(self, name: str, uses: Mapping[str, Use | str]) -> bool:
        """Create an event type: attributes, each `mandatory` or `optional`, then perhaps `unique` or `multiple`."""
        made = {attribute: Use.of(use, f"types.{name}.{attribute}") for attribute, use in uses.items()}
        return self._step(lambda state: state.with_type(name, made))

    def extend(self, other: Schema | Mapping[str, object]) -> bool:
        """Add everything that another schema or a document defines; if anything conflicts, add nothing.

        A document may build on definitions that are there.
        """
        document = other.to_document() if isinstance(other, Schema) else other
        return self._step(lambda state: documents.extended(state, document))

    def _step(self, step: Callable[[SchemaDefinitions], SchemaDefinitions]) -> bool:
        with self._lock:
            old, self._state = self._state, step(self._state)
            return self._state is not old

    def view(self, types: Iterable[str]) -> Mapping[str, Use]:
        """The view of some types: how an event of all of them uses its attributes."""
        state = self._state
        names = frozenset(types)
        if self._views[0] is not state or len(self._views[1]) >= VIEWS_KEPT:
            self._views = (state, {})
        kept = self._views[1]
        found = kept.get(names)
        if found is None:
            for name in names - state.types.keys():
                raise SchemaError(f"Expected an event type, but got {name!r}{did_you_mean(name, state.types)}", "types")
            found = merge(state.types[name] for name in state.types if name in names)
            if self._views[0] is state:
                kept[names] = found
        return found

    def declare_view(self, types: Iterable[str], uses: Mapping[str, Use | str]) -> DeclaredView:
        """The view (types, uses) if it has the three properties; InvalidSchema with every one that it breaks.

        >>> schema = Schema.from_document({"attributes": {"price": "float"}, "types": {"sale": {"price": "mandatory"}}})
        >>> schema.declare_view(["sale"], {"price": "optional"})
        Traceback (most recent call last):
        ...
        whimbrel.model.schema.errors.InvalidSchema: Property 1: Expected 'mandatory', but got 'optional' - at uses.price
        """
        view = DeclaredView(frozenset(types), {name: Use.of(use, f"uses.{name}") for name, use in uses.items()})
        view.check(self._state.types)
        return view

    def domain_of(self, name: str) -> Domain | None:
        """The domain of an attribute, the type attribute included; None if there is no such attribute."""
        state = self._state
        return state.type_names if name == state.type_attribute else state.attributes.get(name)

    def order_of(self, name: str) -> Ordered | None:
        """The domain of an attribute whose values are matched as codes; None for all others."""
        domain = self._state.attributes.get(name)
        return domain if isinstance(domain, Ordered) else None

    def violations(self, event: Event | Mapping[str, object]) -> list[Violation]:
        """Every reason why the event is invalid; none if it is valid."""
        return check_event(self, Event.of(event).plain)[0]

    def read(self, event: AnyEvent, row: int | None = None) -> Event:
        """The event with its values coded for matching; InvalidEvent with every violation if it is not valid."""
        if isinstance(event, TypedEvent) and event.schema is self:
            return event
        plain = Event.of(event).plain
        violations, codes = check_event(self, plain)
        if violations:
            raise InvalidEvent(violations, row)
        return TypedEvent(self, plain, codes)

    def read_for_match(self, event: AnyEvent) -> tuple[AnyEvent, frozenset[str]]:
        """Read an event for a match. Returns what matches as `read` does, and the attributes that hold timestamps.

        If a quick look finds the event valid, the result is an object in codes. Otherwise `read` decides.
        """
        quick = self._quick
        if quick.state is not self._state:
            quick = self._quick = QuickCheck(self._state)
        found: AnyEvent = parse_json(event) if isinstance(event, bytes | str) else event
        coded = quick.coded(found) if type(found) is dict else None
        return (self.read(found) if coded is None else coded), quick.instants

    def typed(self, filter: Filter) -> Filter:
        """The filter with the meaning that it has in this schema; FilterTypeError if it does not fit."""
        if filter.schema is self:
            return filter
        typed_filter.check_filter(self, filter)
        return Filter(filter.expression, filter.text, filter.dialect, self)

    def coded(self, expression: Expression) -> Expression:
        """The expression with codes in the place of ordered values."""
        return typed_filter.coded(self, expression)

    def refined(self, conjunction: Conjunction) -> Conjunction | None:
        """The conjunction with each set of values in the canonical form of its domain."""
        return typed_filter.refined(self, conjunction)

    @staticmethod
    def from_document(document: object) -> Schema:
        """The schema that a document describes; InvalidSchema with every problem."""
        return Schema._of(documents.read(document))

    def to_document(self) -> dict[str, object]:
        """The schema as a document of plain dicts, lists and texts."""
        return documents.written(self._state)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Schema:
        """The schema in a file, JSON if its name ends so, else TOML."""
        return Schema.from_document(documents.load(path))

    def dump(self, path: str | os.PathLike[str]) -> None:
        """Write the schema to a file, JSON if its name ends so, else TOML."""
        documents.dump(self.to_document(), path)

    @staticmethod
    def from_arrow(schema: object, type: str = "event", ignore: Collection[str] = ()) -> Schema:
        """The schema with one event type, the default one, for tables with an Arrow schema."""
        return Schema._of(read_arrow(schema, type, ignore))

    @staticmethod
    def from_spark(schema: object, type: str = "event", ignore: Collection[str] = ()) -> Schema:
        """The schema with one event type, the default one, for data frames with a StructType, or its JSON form."""
        return Schema._of(read_spark(schema, type, ignore))

    @staticmethod
    def from_json_schema(document: object, type: str = "event", ignore: Collection[str] = ()) -> Schema:
        """The schema with one event type, the default one, for the objects that a JSON Schema describes."""
        return Schema._of(read_json_schema(document, type, ignore))

    @staticmethod
    def infer(
        events: Iterable[Event | Mapping[str, object]],
        type_attribute: str = "event_type",
        default_type: str = "event",
        values: int = 0,
    ) -> Schema:
        """The schema of a sample of events; text with at most `values` different values becomes an enumeration.

        >>> Schema.infer([{"price": 3}, {"price": 2.5, "tags": ["new", "sale"]}]).to_document()["types"]
        {'event': {'price': 'mandatory', 'tags': 'optional multiple'}}
        """
        return Schema._of(inferred(events, type_attribute, default_type, values))

    def diff(self, newer: Schema) -> list[Change]:
        """What is added, removed or changed from this schema to a newer one."""
        return changes(self._state, newer._state)

    @staticmethod
    def _of(state: SchemaDefinitions) -> Schema:
        schema = Schema()
        schema._state = state
        return schema

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schema) and self._state.content == other._state.content

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __reduce__(self) -> tuple[object, ...]:
        return Schema._of, (self._state,)

    def __repr__(self) -> str:
        return f"<Schema version {self.version}: {len(self.types)} types, {len(self.attributes)} attributes>"
