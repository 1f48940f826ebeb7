"""Where `Filter.parse` and `str(filter)` find the languages: a registry that `whimbrel.language` fills.

The model does not import the languages; they import the model and register themselves here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from whimbrel.model.errors import UnknownDialect

if TYPE_CHECKING:
    from whimbrel.model.filter import Filter


class Dialect(Protocol):
    """A language for filters."""

    def parse(self, source: object) -> Filter:
        """The filter that a text (or, in some dialects, an object) stands for."""

    def print(self, filter: Filter) -> str:
        """The canonical text of a filter."""


_REGISTRY: dict[str, Dialect] = {}


def register(name: str, dialect: Dialect) -> None:
    """Make a dialect known by its name."""
    _REGISTRY[name] = dialect


def get(name: str) -> Dialect:
    """The dialect of that name, or `UnknownDialect`."""
    try:
        return _REGISTRY[name]
    except KeyError:
        raise UnknownDialect(name, sorted(_REGISTRY)) from None
