"""The role of a schema: what filters, explanations and printers call. `whimbrel.model.schema.Schema` has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from whimbrel.model.conjunction import Conjunction
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.expression import Comparison, Expression
from whimbrel.model.intervals import IntervalSet
from whimbrel.model.values import SortKey

if TYPE_CHECKING:
    from whimbrel.model.filter import Filter


class CodedDomain(Protocol):
    """A domain whose values are matched as codes: 0, 1, 2 and so on, in an order that the domain gives."""

    @property
    def words(self) -> Sequence[str]:
        """The value of each code."""

    def word(self, key: SortKey) -> SortKey:
        """The value of a code, as a key."""

    def code_runs(self, values: IntervalSet) -> list[tuple[int, int]]:
        """The codes of a set, as runs from the first to the last code."""

    def described(self, runs: Sequence[tuple[int, int]]) -> tuple[Comparison, int] | None:
        """The order comparison that holds for exactly these codes, if there is one."""


@runtime_checkable
class EventSchema(Protocol):
    """The meaning of attributes: which values they have, and how these compare."""

    def typed(self, filter: Filter) -> Filter:
        """The filter with the meaning that it has in this schema; FilterTypeError if it does not fit."""

    def coded(self, expression: Expression) -> Expression:
        """The expression with codes in the place of ordered values."""

    def refined(self, conjunction: Conjunction) -> Conjunction | None:
        """The conjunction with each set of values in its canonical form; None if nothing satisfies it."""

    def read(self, event: AnyEvent, row: int | None = None) -> Event:
        """The event with its values coded for matching; InvalidEvent with every violation if it is not valid."""

    def domain_of(self, name: str) -> object | None:
        """The domain of an attribute, or None; equal domains give values the same meaning."""

    def order_of(self, name: str) -> CodedDomain | None:
        """The domain of an attribute whose values are matched as codes; None for all others."""
