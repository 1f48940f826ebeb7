"""A template: the expression of a filter with numbered slots in the place of its literals.

One parse of a text gives a template, which serves every text that differs in literals only. Whatever depends on the
value of a literal (folding `1 < 2`, a valid LIKE pattern, a real date) is therefore done when literals are bound, never
in the parser.

A slot is an index into the list of bound values: the strings in the order of the text, then the numbers backwards,
then `CONSTANTS`. So a string is 0 or above, a constant is -1 to -3, a number is -4 or below, and each is known when
its token is read.

`bind` of a node returns its expression with the values of the slots. Nodes never change. They are not frozen, because
that would make their construction, which is most of the cost of a new shape, twice as slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

from whimbrel.language.sql.lexer import is_too_long, number_value, place, position_of_literal
from whimbrel.model import expression as ex
from whimbrel.model.conjunction import holds
from whimbrel.model.errors import FilterError, LimitExceeded
from whimbrel.model.expression import Comparison, Expression, Quantifier
from whimbrel.model.filter import Filter
from whimbrel.model.patterns import Cidr, Regex, is_lower_case, is_upper_case, parse_ilike, parse_like, plain_like
from whimbrel.model.values import Timestamp, Value, canonical_number, sort_key, type_of

StringType: TypeAlias = Literal["string", "timestamp"]
TextOperator: TypeAlias = Literal["LIKE", "STARTS", "ENDS", "INSIDE", "EQUAL", "RLIKE", "CIDR"]
Case: TypeAlias = Literal["lower", "upper", "any"]
Values: TypeAlias = Sequence[Value | None]

CONSTANTS: tuple[Value | None, ...] = (None, False, True)
TRUE, FALSE, NULL, FIRST_NUMBER = -1, -2, -3, -4
_FEW = 256
"""Predicates of a plain template, at most."""


class BadLiteral(Exception):
    """The literal of `slot` is not valid there; `Template.bind` turns this into an error with its position."""

    def __init__(self, slot: int, error: FilterError | LimitExceeded) -> None:
        self.slot = slot
        self.error = error
        super().__init__(slot, error)


@dataclass(slots=True)
class Ready:
    """A predicate without literals, such as IS NULL."""

    expression: Expression

    def bind(self, values: Values) -> Expression:
        return self.expression


@dataclass(slots=True)
class CompareSlot:
    """`attribute op literal`."""

    attribute: str
    op: Comparison
    slot: int

    def bind(self, values: Values) -> Expression:
        return ex.Compare(self.attribute, self.op, values[self.slot])


@dataclass(slots=True)
class CompareSlots:
    """`literal op literal`, which folds by the rules of matching."""

    left: int
    op: Comparison
    right: int

    def bind(self, values: Values) -> Expression:
        return ex.Constant(fold(values[self.left], self.op, values[self.right]))


@dataclass(slots=True)
class InSlots:
    """`attribute IN (literals)`."""

    attribute: str
    slots: tuple[int, ...]

    def bind(self, values: Values) -> Expression:
        return ex.In(self.attribute, tuple([values[slot] for slot in self.slots]))


@dataclass(slots=True)
class ContainsSlots:
    """`attribute CONTAINS quantifier (literals)`."""

    attribute: str
    quantifier: Quantifier
    slots: tuple[int, ...]

    def bind(self, values: Values) -> Expression:
        return ex.Contains(self.attribute, self.quantifier, tuple([values[slot] for slot in self.slots]))


@dataclass(slots=True)
class TextSlot:
    """A test of a string against a text: LIKE, STARTS WITH, ENDS WITH, contains(), =, RLIKE or IN CIDR.

    With a `case` the test ignores case: that of `lower(attribute)` or `upper(attribute)`, or any, for ILIKE. A text
    that is not in the case of the function never matches.
    """

    operator: TextOperator
    attribute: str
    slot: int
    case: Case | None = None
    escape: int | None = None

    def bind(self, values: Values) -> Expression:
        """The test with the text in place, or unknown for NULL; BadLiteral when the text is not such a pattern."""
        text = values[self.slot]
        if text is None:
            return ex.Constant(None)
        assert isinstance(text, str)
        try:
            return self._exact(text, values) if self.case is None else self._folded(text, values)
        except (FilterError, LimitExceeded) as error:
            raise BadLiteral(self.slot, error) from None

    def _exact(self, text: str, values: Values) -> Expression:
        if self.operator == "STARTS":
            return ex.StartsWith(self.attribute, text)
        if self.operator == "ENDS":
            return ex.EndsWith(self.attribute, text)
        if self.operator == "RLIKE":
            return ex.RLike(self.attribute, Regex(text).regex)
        if self.operator == "CIDR":
            return ex.InCidr(self.attribute, Cidr(text).network)
        if self.operator == "INSIDE":
            text = f"%{plain_like(text)}%"
        escape = _escape_of(self.escape, values)
        parse_like(text, escape)
        return ex.Like(self.attribute, text, escape)

    def _folded(self, text: str, values: Values) -> Expression:
        if (self.case == "lower" and not is_lower_case(text)) or (self.case == "upper" and not is_upper_case(text)):
            return ex.CompareAttributes(self.attribute, "!=", self.attribute)
        escape = _escape_of(self.escape, values)
        plain = plain_like(text)
        patterns = {"LIKE": text, "STARTS": f"{plain}%", "ENDS": f"%{plain}", "INSIDE": f"%{plain}%", "EQUAL": plain}
        parse_ilike(patterns[self.operator], escape)
        return ex.ILike(self.attribute, patterns[self.operator], escape)


def _escape_of(slot: int | None, values: Values) -> str:
    """The escape character of LIKE; BadLiteral if the text is longer."""
    escape = "\\" if slot is None else values[slot]
    assert isinstance(escape, str)
    if slot is not None and len(escape) > 1:
        raise BadLiteral(slot, FilterError(f"Expected one character after ESCAPE, but got {escape!r}"))
    return escape


@dataclass(slots=True)
class Negation:
    """NOT term."""

    term: TemplateNode

    def bind(self, values: Values) -> Expression:
        return ex.Not(self.term.bind(values))


@dataclass(slots=True)
class AllOf:
    """AND of the terms."""

    terms: tuple[TemplateNode, ...]

    def bind(self, values: Values) -> Expression:
        return ex.And(tuple([term.bind(values) for term in self.terms]))


@dataclass(slots=True)
class AnyOf:
    """OR of the terms."""

    terms: tuple[TemplateNode, ...]

    def bind(self, values: Values) -> Expression:
        return ex.Or(tuple([term.bind(values) for term in self.terms]))


TemplateNode: TypeAlias = (
    Ready | CompareSlot | CompareSlots | InSlots | ContainsSlots | TextSlot | Negation | AllOf | AnyOf
)


def fold(left: Value | None, op: Comparison, right: Value | None) -> bool | None:
    """The result of comparing two values: True, False, or None for unknown.

    >>> fold(1, "<", 2), fold(1, "=", "1"), fold(1, "<", "1"), fold(None, "=", None)
    (True, False, None, None)
    """
    if left is None or right is None:
        return None
    if op not in ("=", "!=") and (isinstance(left, bool) or type_of(left) != type_of(right)):
        return None
    return holds(op, sort_key(left), sort_key(right))


@dataclass(frozen=True)
class Template:
    """A parsed shape: the tree with slots, the types of its strings, and the slots with a minus before them.

    `dates` are the slots of timestamps that are written as DATE, without a time. `has_list`: some slots are members of
    a list. A literal in parentheses is no list.
    """

    root: TemplateNode
    strings: tuple[StringType, ...]
    numbers: int
    negatives: tuple[int, ...]
    dates: tuple[int, ...] = ()
    has_list: bool = False

    @cached_property
    def is_plain(self) -> bool:
        """Whether it is a short conjunction of plain predicates: no literal of moderate length can be refused."""
        terms = self.root.terms if isinstance(self.root, AllOf) else (self.root,)
        return len(terms) <= _FEW and "timestamp" not in self.strings and all(map(_is_plain, terms))

    def bind(self, strings: Sequence[str], numbers: Sequence[str], text: str) -> Expression:
        """The expression with these literals in the slots; `text` gives errors their position."""
        try:
            return self.root.bind(self._values(strings, numbers))
        except BadLiteral as bad:
            raise _placed(bad, text) from None

    def _values(self, strings: Sequence[str], numbers: Sequence[str]) -> list[Value | None]:
        values: list[Value | None] = list(strings)
        if "timestamp" in self.strings:
            self._read_timestamps(values)
        try:
            values += [number_value(raw) for raw in reversed(numbers)]
        except LimitExceeded as error:
            index = next(index for index, raw in enumerate(numbers) if is_too_long(raw))
            raise BadLiteral(FIRST_NUMBER - index, error) from None
        values += CONSTANTS
        for slot in self.negatives:
            values[slot] = canonical_number(-values[slot])  # type: ignore[operator]
        return values

    def _read_timestamps(self, values: list[Value | None]) -> None:
        for slot, kind in enumerate(self.strings):
            if kind == "timestamp":
                text = str(values[slot])
                try:
                    if slot in self.dates and len(text) != 10:
                        raise ValueError(f"Expected a date such as 2026-01-31, but got {text!r}")
                    values[slot] = Timestamp.parse(text)
                except ValueError as error:
                    raise BadLiteral(slot, FilterError(str(error))) from None


def _is_plain(node: TemplateNode) -> bool:
    return isinstance(node, CompareSlot | InSlots) or (
        isinstance(node, Ready) and isinstance(node.expression, ex.IsNull | ex.IsMissing)
    )


class LateFilter(Filter):
    """A filter of a plain template: literals are bound when the expression is first used."""

    def __init__(self, template: Template, strings: Sequence[str], numbers: Sequence[str], text: str) -> None:
        self._literals = template, strings, numbers
        self.text, self.dialect, self.schema = text, "sql", None

    @cached_property
    def expression(self) -> Expression:  # type: ignore[override]
        """The expression, bound on first use."""
        template, strings, numbers = self._literals
        return template.bind(strings, numbers, str(self.text))

    def is_surely_small(self) -> bool:
        return True


def position_of_slot(text: str, slot: int) -> int:
    """Where the string or number of a slot stands in a text."""
    return position_of_literal(text, slot >= 0, slot if slot >= 0 else FIRST_NUMBER - slot)


def _placed(bad: BadLiteral, text: str) -> FilterError | LimitExceeded:
    """The error of a literal, with its place in the text."""
    error, position = bad.error, position_of_slot(text, bad.slot)
    if isinstance(error, LimitExceeded):
        return LimitExceeded(error.limit, error.size, error.maximum, error.unit, place(text, position))
    return FilterError(error.problem, text, position)
