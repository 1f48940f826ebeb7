"""The errors of Whimbrel: one class per kind, with typed fields and a formed sentence."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence


class WhimbrelError(Exception):
    """The base of every error that Whimbrel raises on purpose. Errors can be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[WhimbrelError], arguments: tuple[object, ...], fields: dict[str, object]) -> WhimbrelError:
    error = kind.__new__(kind, *arguments)
    error.args = arguments
    error.__dict__.update(fields)
    return error


class FilterError(WhimbrelError):
    """A filter was refused: `text`, the `position` (code point) of the problem, and what it is."""

    def __init__(self, problem: str, text: str = "", position: int = 0) -> None:
        self.problem, self.text, self.position = problem, text, position
        super().__init__(f"{problem}{self._pointer()}")

    @property
    def line(self) -> int:
        """The line of the problem, from 1."""
        return self.text.count("\n", 0, self.position) + 1

    @property
    def column(self) -> int:
        """The column of the problem, from 1."""
        return self.position - (self.text.rfind("\n", 0, self.position) + 1) + 1

    def _pointer(self) -> str:
        if not self.text:
            return ""
        start = self.text.rfind("\n", 0, self.position) + 1
        end = self.text.find("\n", self.position)
        line = self.text[start : end if end >= 0 else len(self.text)]
        column = self.position - start
        if len(line) > 120:  # show a window around the place
            left = max(0, column - 60)
            line, column = line[left : left + 120], column - left
        return f" at line {self.line}, column {self.column}\n  {line}\n  {_blank(line[:column])}^"


def _blank(text: str) -> str:
    """Space of the width that the text has on a screen: tabs stay, wide letters are two, marks on letters none."""
    if text.isascii():
        return "\t".join(" " * len(part) for part in text.split("\t"))
    return "".join(
        letter if letter == "\t" else " " * ((unicodedata.east_asian_width(letter) in "WF") + 1)
        for letter in text
        if not unicodedata.combining(letter)
    )


class FilterSyntaxError(FilterError):
    """The text is not a filter: what was `expected` there, and what was `found`."""

    def __init__(self, expected: str, found: str, text: str, position: int) -> None:
        self.expected, self.found = expected, found
        super().__init__(f"Expected {expected}, but got {found}", text, position)


class RowError(WhimbrelError):
    """An error that may be about one event of many: the one at `row`."""

    row: int | None = None

    def at_row(self, row: int | None) -> RowError:
        """The same error in the event of that row; None: in a single event."""
        raise NotImplementedError


class FilterWarning(UserWarning):
    """A filter is accepted but probably says something else than was meant, such as `category = "Toy"`."""


class LimitExceeded(RowError):
    """Something is larger than its limit in `whimbrel.model.limits`; `row`: in which event, if it is one of many."""

    def __init__(self, limit: str, size: int, maximum: int, unit: str, where: str = "", row: int | None = None) -> None:
        self.limit, self.size, self.maximum, self.unit, self.where, self.row = limit, size, maximum, unit, where, row
        place = _place(where, row)
        at = f" - at {place}" if place else ""
        super().__init__(f"Expected at most {maximum:,} {unit}, but got {size:,} (limit: {limit}){at}")

    def at_row(self, row: int | None) -> LimitExceeded:
        return LimitExceeded(self.limit, self.size, self.maximum, self.unit, self.where, row)


class EventError(RowError):
    """An event was refused: what was `expected` at `path`, what was `found`, and the `row` if it is one of many."""

    def __init__(self, expected: str, found: str, path: str = "$", row: int | None = None) -> None:
        self.expected, self.found, self.path, self.row = expected, found, path, row
        super().__init__(f"Expected {expected}, but got {found} - at {_place(path, row)}")

    def at_row(self, row: int | None) -> EventError:
        return EventError(self.expected, self.found, self.path, row)


def _place(where: str, row: int | None) -> str:
    """A place in an event, which has a row if it is one of many."""
    if row is None:
        return where
    return f"event {row}: {where}" if where else f"event {row}"


class WrongUsage(WhimbrelError):
    """Something was asked for that there is not, or cannot be. Commands end with the status of wrong usage."""


class OptionError(WhimbrelError, TypeError):
    """An option of a call has a value that it cannot have: what was `expected`, and what was `found`."""

    def __init__(self, option: str, expected: str, found: str) -> None:
        self.option, self.expected, self.found = option, expected, found
        super().__init__(f"Expected {expected}, but got {found} - at {option}")


class NamesError(OptionError):
    """An option that takes names of attributes, such as `timestamps`, got something else."""

    def __init__(self, option: str, found: str) -> None:
        super().__init__(option, "a list of attribute names", found)


class MalformedSubscription(WhimbrelError, ValueError):
    """One of many subscriptions is no id with a filter: what was `expected`, what was `found`, and its `row`."""

    def __init__(self, expected: str, found: str, row: int | None = None) -> None:
        self.expected, self.found, self.row = expected, found, row
        super().__init__(f"Expected {expected}, but got {found}" + ("" if row is None else f" - at row {row:,}"))


class UnknownDialect(WhimbrelError):
    """There is no dialect of this name; `available` lists the names there are."""

    def __init__(self, dialect: object, available: Sequence[str]) -> None:
        self.dialect, self.available = dialect, tuple(available)
        super().__init__(f"Expected a dialect of {', '.join(self.available)}, but got {dialect!r}")


class DuplicateId(WhimbrelError):
    """A subscription id that is already in the index."""

    def __init__(self, id: int | str) -> None:
        self.id = id
        super().__init__(f"Expected a new subscription id, but {id!r} is already there (use replace)")


class UnknownId(WhimbrelError, KeyError):
    """A subscription id that is not in the index."""

    def __init__(self, id: object) -> None:
        self.id = id
        super().__init__(f"Expected the id of a subscription, but {id!r} is not there")

    def __str__(self) -> str:
        return str(self.args[0])


class IdKindError(WhimbrelError, TypeError):
    """A subscription id of another kind than the index holds (`expected`: int64 or string)."""

    def __init__(self, id: object, expected: str) -> None:
        self.id, self.expected = id, expected
        super().__init__(f"Expected a subscription id of kind {expected}, but got {type(id).__name__} {id!r}")


class UnsupportedFilter(WhimbrelError):
    """A filter outside the capabilities of a matcher; `alternatives` name members that support it."""

    def __init__(self, matcher: str, construct: str, alternatives: Sequence[str] = ()) -> None:
        self.matcher, self.construct, self.alternatives = matcher, construct, tuple(alternatives)
        others = f"; supported by {', '.join(self.alternatives)}" if self.alternatives else ""
        super().__init__(f"Matcher {matcher!r} does not support {construct}{others}")


class UnsupportedEvent(WhimbrelError):
    """An event outside the capabilities of a matcher."""

    def __init__(self, matcher: str, construct: str, attribute: str) -> None:
        self.matcher, self.construct, self.attribute = matcher, construct, attribute
        super().__init__(f"Matcher {matcher!r} does not support {construct} - at {attribute}")


class MissingExtra(WhimbrelError, ImportError):
    """An optional dependency is not installed; installing `extra` adds it."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"{package} is not installed; run: pip install 'whimbrel[{extra}]'")
