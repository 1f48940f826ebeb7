"""Lint of a file of subscriptions: what cannot be read, and what the rules of `language/lint.py` say about the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from whimbrel.language.lint import Rule, lint_filter, lint_together
from whimbrel.model.errors import DuplicateId, IdKindError
from whimbrel.model.filter import Filter
from whimbrel.model.schema import Schema
from whimbrel.model.subscription import Id, id_kind
from whimbrel.readers.errors import InputError, InputPlace, RefusedInput
from whimbrel.readers.source import Format
from whimbrel.readers.subscription_rows import parse_filter, read_subscriptions

_WIDTH = 100
"""Characters of another filter that a finding shows."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One remark on a subscription; `other` is the id of a subscription that it duplicates or that covers it."""

    place: InputPlace
    id: Id | None
    rule: Rule
    message: str
    other: Id | None = None
    error: InputError | None = None

    def to_dict(self) -> dict[str, object]:
        """The finding as JSON-ready data, without the fields that are not known."""
        out: dict[str, object | None] = {
            "rule": self.rule,
            "subscription": self.id,
            "other": self.other,
            "file": self.place.file,
            "line": self.place.line,
            "row": self.place.row,
            "message": self.message,
        }
        if self.error is not None:
            out |= self.error.to_dict()
        return {name: value for name, value in out.items() if value is not None}

    def __str__(self) -> str:
        id = "" if self.id is None else f"{self.id}: "
        return f"{self.place}: {self.rule}: {id}{self.message}"


def find(
    file: str,
    fallback: Format | None,
    write: Callable[[Finding], None],
    tick: Callable[[int, str], None] = lambda count, step: None,
    schema: Schema | None = None,
) -> int:
    """Write every finding on the subscriptions of a file. Return how many subscriptions were read.

    With a schema, filters mean what they mean in it, and those that do not fit are errors. Remarks on
    single filters come first, in the order of the file, then those on filters beside others.
    """
    kind: str | None = None
    known: dict[Id, tuple[InputPlace, Filter]] = {}
    count = 0
    for place, item in read_subscriptions(file, fallback):
        if isinstance(item, InputError):
            count += item.place.row is not None
            write(Finding(item.place, None, "error", item.problem, error=item))
            continue
        count += 1
        if count % 1_000 == 0:
            tick(count, "read")
        kind = kind or id_kind(item.id)
        found: Filter | RefusedInput
        if id_kind(item.id) != kind:
            found = RefusedInput(place, IdKindError(item.id, kind), str(item.filter))
        elif item.id in known:
            found = RefusedInput(place, DuplicateId(item.id), str(item.filter))
        else:
            found = parse_filter(place, item, schema)
        if isinstance(found, RefusedInput):
            write(Finding(place, item.id, "error", found.problem, error=found))
            continue
        known[item.id] = place, found
        for remark in lint_filter(found):
            write(Finding(place, item.id, remark.rule, remark.message))
    _compare(known, write, lambda done: tick(done, "compared"))
    return count


def _compare(
    known: dict[Id, tuple[InputPlace, Filter]], write: Callable[[Finding], None], tick: Callable[[int], None]
) -> None:
    """Write the findings on equal and covered filters."""
    ids = list(known)
    for number, remark in lint_together([filter for _, filter in known.values()], tick):
        assert remark.other is not None
        other = ids[remark.other]
        text = known[other][1].text or str(known[other][1])
        message = f"{remark.message} {other!r}: {text if len(text) <= _WIDTH else f'{text[: _WIDTH - 3]}...'}"
        write(Finding(known[ids[number]][0], ids[number], remark.rule, message, other))
