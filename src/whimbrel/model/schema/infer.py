"""A schema inferred from a sample of events: the narrowest plain domains in which all of them are valid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from whimbrel.model.event import Event
from whimbrel.model.schema.definitions import SchemaDefinitions, Use
from whimbrel.model.schema.domains import Boolean, Domain, Enumeration, Instant, Number, String
from whimbrel.model.schema.errors import InvalidSchema, SchemaError
from whimbrel.model.values import BOOLEAN, NUMBER, STRING, TIMESTAMP, TYPE_NAMES, SortKey


class _Seen:
    """What the sample shows of the values of one attribute."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.ranks: set[int] = set()
        self.whole = self.instants = True
        self.texts: dict[str, None] = {}
        self.count = 0

    def add(self, key: SortKey) -> None:
        rank, value = key
        self.ranks.add(rank)
        self.count += 1
        if rank == NUMBER:
            self.whole = self.whole and Number("integer").code(key) is not None
        elif rank == STRING:
            self.instants = self.instants and Instant().code(key) is not None
            if len(self.texts) <= self.most:
                self.texts[str(value)] = None

    def domain(self) -> Domain | None:
        """The narrowest domain with all values, or None if they have several types."""
        if self.ranks == {BOOLEAN}:
            return Boolean()
        if self.ranks == {NUMBER}:
            return Number("integer" if self.whole else "float")
        if self.ranks <= {STRING, TIMESTAMP} and self.instants:
            return Instant()
        if self.ranks != {STRING}:
            return None
        few = len(self.texts) <= self.most and 2 * len(self.texts) <= self.count  # most of them come again
        return Enumeration(tuple(sorted(self.texts))) if few else String()


def inferred(
    events: Iterable[Event | Mapping[str, object]], type_attribute: str, default_type: str, values: int
) -> SchemaDefinitions:
    """The schema of a sample; InvalidSchema if an attribute has values of several types, or there are no events."""
    seen: dict[str, _Seen] = {}
    counts: Counter[str] = Counter()
    present: dict[str, Counter[str]] = {}
    multiple: dict[str, set[str]] = {}
    alone = False
    for each in events:
        event = Event.of(each).plain
        types = [str(value) for value in event.values(type_attribute) if isinstance(value, str)] or [default_type]
        alone = alone or not event.has_value(type_attribute)
        counts.update(types)
        for name in event.attributes:
            keys = event.non_null_keys(name)
            if name == type_attribute or not keys:
                continue
            for key in keys:
                seen.setdefault(name, _Seen(values)).add(key)
            for type in types:
                present.setdefault(type, Counter())[name] += 1
                if len(keys) > 1:
                    multiple.setdefault(type, set()).add(name)
    if not counts:
        raise InvalidSchema([SchemaError("Expected at least one event", "$")])
    state = _with_attributes(SchemaDefinitions(type_attribute, default_type if alone else None), seen)
    for type in counts:
        uses = {
            name: Use(count == counts[type], name in multiple.get(type, ()))
            for name, count in present.get(type, Counter()).items()
        }
        state = state.with_type(type, uses)
    return state


def _with_attributes(state: SchemaDefinitions, seen: Mapping[str, _Seen]) -> SchemaDefinitions:
    problems: list[SchemaError] = []
    for name, one in seen.items():
        domain = one.domain()
        if domain is None:
            kinds = " and ".join(TYPE_NAMES[rank] for rank in sorted(one.ranks))
            problems.append(SchemaError(f"Expected values of one type, but got {kinds}", name))
            continue
        state = state.with_attribute_of(name, domain)
    if problems:
        raise InvalidSchema(problems)
    return state
