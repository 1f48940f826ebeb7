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
from whimbrel.readers.subscriptions import SubscriptionRow, parse_filter, read_subscriptions

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
    linter = _Linter(write, schema)
    count = 0
    for place, item in read_subscriptions(file, fallback):
        if isinstance(item, InputError):
            count += item.place.row is not None
            write(Finding(item.place, None, "error", item.problem, error=item))
            continue
        count += 1
        linter.check(place, item)
        if count % 1_000 == 0:
            tick(count, "read")
    linter.check_together(tick)
    return count


class _Linter:
    def __init__(self, write: Callable[[Finding], None], schema: Schema | None) -> None:
        self.write = write
        self.schema = schema
        self.kind: str | None = None
        self.known: set[Id] = set()
        self.rows: list[tuple[InputPlace, Id]] = []
        self.filters: list[Filter] = []

    def check(self, place: InputPlace, row: SubscriptionRow) -> None:
        """Apply the rules about single filters to one subscription."""
        filter = self._accept(place, row)
        if isinstance(filter, RefusedInput):
            self.write(Finding(place, row.id, "error", filter.problem, error=filter))
            return
        self.known.add(row.id)
        self.rows.append((place, row.id))
        self.filters.append(filter)
        for remark in lint_filter(filter):
            self.write(Finding(place, row.id, remark.rule, remark.message))

    def _accept(self, place: InputPlace, row: SubscriptionRow) -> Filter | RefusedInput:
        if self.kind not in (None, id_kind(row.id)):
            return RefusedInput(place, IdKindError(row.id, str(self.kind)), str(row.filter))
        self.kind = id_kind(row.id)
        if row.id in self.known:
            return RefusedInput(place, DuplicateId(row.id), str(row.filter))
        return parse_filter(place, row, self.schema)

    def check_together(self, tick: Callable[[int, str], None]) -> None:
        """Apply the rules about equal and covered filters to all subscriptions."""
        for number, remark in lint_together(self.filters, lambda count: tick(count, "compared")):
            place, id = self.rows[number]
            assert remark.other is not None
            other_id, other = self.rows[remark.other][1], self.filters[remark.other]
            text = other.text or str(other)
            message = f"{remark.message} {other_id!r}: {text if len(text) <= _WIDTH else f'{text[: _WIDTH - 3]}...'}"
            self.write(Finding(place, id, remark.rule, message, other_id))
