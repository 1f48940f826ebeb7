"""Several event types: a structure for each type, or names of attributes that begin with the type.

Le Subscribe, footnote 1 and section 5: the algorithms are told for one event type, and either way makes them work for
several. With neither, the type is a predicate like all others. The schema says which attribute holds the types; where
there is none it is `event_type`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache
from typing import ClassVar

from whimbrel.matchers.shared.base import BaseMatcher, Stats
from whimbrel.matchers.shared.option_checks import check_choice
from whimbrel.model.conjunction import Conjunction
from whimbrel.model.constraint import NULL_KEY, Constraint
from whimbrel.model.errors import UnsupportedEvent
from whimbrel.model.event import Event
from whimbrel.model.expression import CompareAttributes, Constant
from whimbrel.model.filter import Filter
from whimbrel.model.intervals import IntervalSet
from whimbrel.model.values import SortKey

STRUCTURES, NAMES = "structures", "names"
TYPE_ATTRIBUTE = "event_type"
MARK = "\0"
"""Begins the names that are a type's own; with `names`, events that have such a name are refused."""


class EventTypeMatcher(BaseMatcher):
    """A member that keeps apart what belongs to different event types.

    A conjunction that wants certain types is stored once for each of them, without that test if it has others. All
    other conjunctions are stored under no type. An event asks under its types and under none. With `names` there is one
    structure, and a type is the beginning of names: events of several types are refused.

    >>> from whimbrel.matchers import make
    >>> matcher = make("fair_predicate", types="structures")
    >>> matcher.add(1, "event_type CONTAINS 'sale' AND price < 5")
    >>> matcher.add(2, "price < 9")
    >>> matcher.match({"event_type": ["sale", "gift"], "price": 3}), matcher.match({"event_type": "gift", "price": 3})
    ([1, 2], [2])
    >>> matcher.stats()["structures"]
    2
    """

    member: ClassVar[type[BaseMatcher]]

    def __init__(self, timestamps: Iterable[str] = (), types: str = STRUCTURES, **options: object) -> None:
        """Empty. `types` is `structures` or `names`; the other options are the member's."""
        super().__init__(timestamps, count=False)
        self._types = check_choice(self.name, "types", types, (STRUCTURES, NAMES))
        self._options = options
        self._type_numbers: dict[SortKey, int] = {}
        self._structures: dict[SortKey | None, BaseMatcher] = {None: self._new_structure()}

    def _new_structure(self) -> BaseMatcher:
        return self.member(**self._options)  # type: ignore[arg-type]

    def _accept(self, conjunction: Conjunction) -> None:
        self._structures[None]._accept(conjunction)

    def _insert(self, number: int, conjunction: Conjunction) -> None:
        with ExitStack() as undo:
            for own, parts in self._parts(conjunction).items():
                if own not in self._structures:
                    self._structures[own] = self._new_structure()
                self._structures[own].add(number, _NormalForm(parts))
                undo.callback(self._structures[own].remove, number)
            undo.pop_all()

    def _delete(self, number: int, conjunction: Conjunction) -> None:
        for own in self._parts(conjunction):
            self._structures[own].remove(number)

    def _search(self, event: Event) -> Iterable[int]:
        types = event.non_null_keys(self._type_attribute)
        if self._types == NAMES:
            if len(types) > 1:
                raise UnsupportedEvent(self.name, "several event types", self._type_attribute)
            for name in event.attributes:
                if name.startswith(MARK):
                    raise UnsupportedEvent(self.name, "a name that begins with a NUL character", name)
            if types and types[0] in self._type_numbers:
                event = event.doubled(self._prefix(types[0]))
            types = []
        for own in (None, *types):
            if own in self._structures:
                yield from map(int, self._structures[own].match(event))

    def _parts(self, conjunction: Conjunction) -> dict[SortKey | None, tuple[Conjunction, ...]]:
        """The conjunctions that each structure stores for a conjunction."""
        name = self._type_attribute
        constraint = conjunction.by_attribute.get(name)
        types = None if constraint is None else _wanted_types(constraint)
        if types is None:
            return {None: (conjunction,)}
        tests = Constraint.of(IntervalSet.points(types)), Constraint(bound=False, required=frozenset([types]))
        is_linked = any(name in (link.left, link.right) for link in conjunction.links)
        if constraint in tests and not is_linked and "." not in name and len(conjunction.attributes) > 1:
            others = tuple(pair for pair in conjunction.constraints if pair[0] != name)
            rest = Conjunction(others, conjunction.links)
            # Under names of its own, what holds where attributes are missing would hold for events of other types.
            if self._types == STRUCTURES or not rest.matches(Event({})):
                conjunction = rest
        if self._types == STRUCTURES:
            return dict.fromkeys(types, (conjunction,))
        return {None: tuple(_renamed(conjunction, self._prefix(own)) for own in sorted(types))}

    @property
    def _type_attribute(self) -> str:
        return str(getattr(self.schema, "type_attribute", TYPE_ATTRIBUTE))

    def _prefix(self, own: SortKey) -> str:
        """The prefix of the names of a type: its number, behind a character that no name of an event begins with."""
        return f"{MARK}{self._type_numbers.setdefault(own, len(self._type_numbers))}."

    def _member_stats(self) -> Stats:
        """The sums of what the structures count."""
        total: Counter[str] = Counter()
        for structure in self._structures.values():
            total.update({name: value for name, value in structure.stats().items() if not isinstance(value, str)})
        for name in ("subscriptions", "conjunctions", "always_true"):
            del total[name]
        return {"structures": len(self._structures), **total}

    def _check(self) -> None:
        super()._check()
        stored: Counter[SortKey | None] = Counter()
        for conjunction in self._numbers:
            stored.update(self._parts(conjunction).keys())
        for own, structure in self._structures.items():
            structure._check()
            assert len(structure) == stored[own]


class _NormalForm(Filter):
    """A filter that is given by its conjunctions."""

    def __init__(self, conjunctions: tuple[Conjunction, ...]) -> None:
        super().__init__(Constant(True))
        self.conjunctions = conjunctions


def _wanted_types(constraint: Constraint) -> frozenset[SortKey] | None:
    """A set of types. An event that matches has at least one of them; None if it need not have any."""
    if constraint.missing or constraint.null:
        return None
    groups = [group for group in constraint.required if NULL_KEY not in group]
    points = constraint.values.as_points() if constraint.bound else None
    if points is not None:
        groups.append(frozenset(points))
    return min(groups, key=lambda group: (len(group), sorted(group)), default=None)


def _renamed(conjunction: Conjunction, prefix: str) -> Conjunction:
    links = tuple(CompareAttributes(prefix + one.left, one.op, prefix + one.right) for one in conjunction.links)
    return Conjunction(tuple((prefix + name, constraint) for name, constraint in conjunction.constraints), links)


@cache
def with_event_types(member: type[BaseMatcher]) -> type[EventTypeMatcher]:
    """The class of a member that keeps event types apart."""
    facts = {name: getattr(member, name) for name in ("name", "paper", "section", "capabilities")}
    return type(f"{member.__name__}OfTypes", (EventTypeMatcher,), {**facts, "member": member})
