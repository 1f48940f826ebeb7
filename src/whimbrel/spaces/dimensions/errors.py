"""The errors of subject spaces. A call that raises one has changed nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from whimbrel.model.errors import WhimbrelError


class SpacesError(WhimbrelError):
    """The base of all errors of subject spaces."""

    def __str__(self) -> str:  # that of KeyError has quotes
        return str(self.args[0])


class UnknownSpace(SpacesError, KeyError):
    """A space that is not defined; `available` lists those that are."""

    def __init__(self, space: str, available: Sequence[str]) -> None:
        self.space, self.available = space, tuple(available)
        super().__init__(f"Expected a space of {', '.join(self.available) or 'those defined'}, but got {space!r}")


class SpaceConflict(SpacesError):
    """A definition that does not fit the existing ones; `problem` says why."""

    def __init__(self, space: str, problem: str) -> None:
        self.space, self.problem = space, problem
        super().__init__(f"Expected a definition of space {space!r} that fits the others, but {problem}")


class RegionError(SpacesError):
    """A region was refused: what was `expected` at `path`, and what was `found`."""

    def __init__(self, expected: str, found: str, path: str) -> None:
        self.expected, self.found, self.path = expected, found, path
        super().__init__(f"Expected {expected}, but got {found} - at {path}")


class UnknownDimension(RegionError):
    """A constraint on a dimension that no space has."""

    def __init__(self, dimension: object, available: Sequence[str], path: str) -> None:
        self.dimension, self.available = dimension, tuple(available)
        super().__init__(f"a dimension of {', '.join(self.available) or 'a space'}", repr(dimension), path)


class EmptyRegion(RegionError):
    """A region without constraints, an interval without values, or no region at all."""


class KeyExists(SpacesError):
    """A new publication or subscription (`role`) has a key that is in use."""

    def __init__(self, role: str, key: int | str) -> None:
        self.role, self.key = role, key
        super().__init__(f"Expected a new key of a {role}, but {key!r} is already there (use update_{role})")


class UnknownKey(SpacesError, KeyError):
    """A key that no publication or subscription (`role`) has."""

    def __init__(self, role: str, key: object) -> None:
        self.role, self.key = role, key
        super().__init__(f"Expected the key of a {role}, but {key!r} is not there")


class KeyKindError(SpacesError, TypeError):
    """A key that is neither text nor a 64-bit integer."""

    def __init__(self, key: object) -> None:
        self.key = key
        super().__init__(f"Expected a key that is text or a 64-bit integer, but got {type(key).__name__} {key!r}")


class SpaceOptionError(SpacesError, ValueError):
    """An option of a subscription or publication has an invalid value."""

    def __init__(self, option: str, expected: str, found: object) -> None:
        self.option, self.expected, self.found = option, expected, found
        super().__init__(f"Expected {expected}, but got {found!r} - at {option}")


class JournalError(SpacesError):
    """A journal that cannot be used; `problem` says why."""

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path, self.problem = str(path), problem
        super().__init__(f"Expected a journal of subject spaces, but {problem} - at {path}")
