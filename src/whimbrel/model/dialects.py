"""The registry of dialects, where `Filter.parse`, `str(filter)` and explanations find them.

The model does not import `whimbrel.language`, which registers its dialects here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

from whimbrel.model.errors import UnknownDialect

if TYPE_CHECKING:
    from whimbrel.model.conjunction import Conjunction
    from whimbrel.model.event_schema import EventSchema
    from whimbrel.model.filter import Filter
    from whimbrel.model.values import Value

HintRule: TypeAlias = Literal["suspicious-name", "suspicious-null", "suspicious-case"]

CANONICAL = "sql"
"""The dialect of canonical texts and explanations."""


class Dialect(Protocol):
    """A language for filters."""

    def parse(self, source: object) -> Filter:
        """The filter that a text (or, in some dialects, an object) stands for."""

    def print(self, filter: Filter) -> str:
        """The canonical text of a filter."""


class Printer(Dialect, Protocol):
    """A dialect that also writes parts of filters. Canonical texts and explanations are written in it."""

    def print_conjunction(self, conjunction: Conjunction, schema: EventSchema | None = None) -> str:
        """The text of a conjunction; `schema` gives the words that codes stand for."""

    def print_name(self, attribute: str) -> str:
        """The name of an attribute, quoted where it must be."""

    def print_value(self, value: Value | None) -> str:
        """The literal of a value."""


@runtime_checkable
class Locating(Protocol):
    """A dialect that can tell where in a text a part of a predicate stands."""

    def locate(self, text: str, number: int, part: str, value: int) -> int:
        """The position (code point) of a `part` of predicate `number`, counted from the left.

        The part is its `attribute`, the `other` attribute that it is compared with, its `operator`, or its `value` of
        that number.
        """


class Hint(NamedTuple):
    """What the writer of a text probably meant: where it stands (code point), the rule that says so, and a sentence."""

    position: int
    rule: HintRule
    message: str


@runtime_checkable
class Hinting(Protocol):
    """A dialect that recognises texts which parse but probably say something else than was meant."""

    def is_suspicious(self, text: str) -> bool:
        """Whether a text, or one of several joined by line breaks, may have hints: a quick look."""

    def hints(self, text: str) -> Sequence[Hint]:
        """The hints on a text, from left to right."""


_REGISTRY: dict[str, Dialect] = {}


def register(name: str, dialect: Dialect) -> None:
    """Make a dialect known by its name."""
    _REGISTRY[name] = dialect


def get(name: str) -> Dialect:
    """The dialect of that name, or `UnknownDialect`."""
    check_name(name)
    try:
        return _REGISTRY[name]
    except KeyError:
        raise UnknownDialect(name, sorted(_REGISTRY)) from None


def check_name(name: object) -> None:
    """Raise UnknownDialect if the name is no text; whether there is a dialect of that name is not looked up."""
    if not isinstance(name, str):
        raise UnknownDialect(name, sorted(_REGISTRY))


def printer() -> Printer:
    """The dialect in which filters are printed."""
    return cast("Printer", get(CANONICAL))


def hints(filter: Filter) -> Sequence[Hint]:
    """The hints on the text of a filter; none if its dialect gives none."""
    dialect = _REGISTRY.get(filter.dialect)
    return dialect.hints(filter.text) if filter.text is not None and isinstance(dialect, Hinting) else ()


def locate(filter: Filter, number: int, part: str, value: int = 0) -> int | None:
    """Where a part of a filter's predicate stands in its text; None if that is not known."""
    dialect = _REGISTRY.get(filter.dialect)
    if filter.text is None or not isinstance(dialect, Locating):
        return None
    return dialect.locate(filter.text, number, part, value)
