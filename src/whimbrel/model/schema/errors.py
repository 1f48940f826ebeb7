"""The errors of schemas, of their extensions, and of events and filters that do not fit."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

from whimbrel.model.errors import FilterError, RowError, WhimbrelError

Rule: TypeAlias = Literal["R1", "R2", "R3"]
Reason: TypeAlias = Literal["unknown-attribute", "wrong-type", "outside-domain", "no-operator", "incomparable"]


MOST_SUGGESTED = 2_000
"""Names that are searched for the nearest one, at most: each takes microseconds."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the nearest known name; nothing if none is near or there are too many names."""
    names = list(islice(known, MOST_SUGGESTED + 1))
    if len(names) > MOST_SUGGESTED or len(name) > 100:
        return ""
    near = difflib.get_close_matches(name, names, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


class SchemaError(WhimbrelError):
    """A definition was refused: the `problem`, and the `path` in the schema that it is at."""

    def __init__(self, problem: str, path: str) -> None:
        self.problem, self.path = problem, path
        super().__init__(f"{problem} - at {path}")


class InvalidSchema(SchemaError):
    """A document is no schema, or no extension: all of its `problems`."""

    def __init__(self, problems: Sequence[SchemaError]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems[0].problem, self.problems[0].path)
        if len(self.problems) > 1:
            lines = "".join(f"\n  {problem}" for problem in self.problems)
            self.args = (f"Expected a schema, but found {len(self.problems):,} problems:{lines}",)


class ConflictingExtension(SchemaError):
    """An extension defines something again in another way: the `existing` and the `proposed` definition."""

    def __init__(self, kind: str, name: str, existing: str, proposed: str) -> None:
        self.kind, self.name, self.existing, self.proposed = kind, name, existing, proposed
        super().__init__(
            f"Expected {kind} {name!r} to stay {existing}, but the extension makes it {proposed}", f"{kind}s.{name}"
        )


@dataclass(frozen=True, slots=True)
class Violation:
    """One reason why an event is invalid: the consistency rule, the attribute, what was expected and found."""

    rule: Rule
    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.rule}: Expected {self.expected}, but got {self.found} - at {self.path}"


class InvalidEvent(RowError):
    """An event is not valid in its view: every violation, and the `row` if it is one of many."""

    def __init__(self, violations: Sequence[Violation], row: int | None = None) -> None:
        self.violations, self.row = tuple(violations), row
        place = "" if row is None else f" {row:,}"
        if len(self.violations) == 1:
            super().__init__(f"Expected a valid event{place}. {self.violations[0]}")
        else:
            lines = "".join(f"\n  {violation}" for violation in self.violations)
            super().__init__(f"Expected a valid event{place}, but got {len(self.violations)} violations:{lines}")

    def at_row(self, row: int | None) -> InvalidEvent:
        return InvalidEvent(self.violations, row)


class FilterTypeError(FilterError):
    """A filter does not fit the schema: the `attribute`, the `reason`, and the place in the text."""

    def __init__(self, reason: Reason, attribute: str, problem: str, text: str = "", position: int = 0) -> None:
        self.reason, self.attribute = reason, attribute
        super().__init__(problem, text, position)
