"""The expression tree of a filter: predicates over attributes joined by AND, OR and NOT.

The tree is what a dialect's parser returns. It says nothing about evaluation: `normal_form.py` turns it into
an OR of conjunctions, which is what everything else works on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from whimbrel.model.values import Value

Comparison: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
Quantifier: TypeAlias = Literal["ALL", "ANY", "NONE"]

NEGATED: dict[Comparison, Comparison] = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", "<=": ">", ">": "<="}
FLIPPED: dict[Comparison, Comparison] = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE, or None for unknown."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Compare:
    """`attribute op value`; None stands for NULL, which makes the comparison unknown."""

    attribute: str
    op: Comparison
    value: Value | None


@dataclass(frozen=True, slots=True)
class CompareAttributes:
    """`left op right` between two attributes."""

    left: str
    op: Comparison
    right: str


@dataclass(frozen=True, slots=True)
class In:
    """`attribute IN (values)`; a None among them stands for NULL."""

    attribute: str
    values: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`attribute LIKE pattern`; `escape` is one character, or empty for none."""

    attribute: str
    pattern: str
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class ILike:
    """`attribute ILIKE pattern`: LIKE in which case does not count."""

    attribute: str
    pattern: str
    escape: str = "\\"


@dataclass(frozen=True, slots=True)
class StartsWith:
    """`attribute STARTS WITH text`."""

    attribute: str
    text: str


@dataclass(frozen=True, slots=True)
class EndsWith:
    """`attribute ENDS WITH text`."""

    attribute: str
    text: str


@dataclass(frozen=True, slots=True)
class RLike:
    """`attribute RLIKE regex`: the regular expression is found somewhere in the string."""

    attribute: str
    regex: str


@dataclass(frozen=True, slots=True)
class InCidr:
    """`attribute IN CIDR network`: a string that is an address of the network."""

    attribute: str
    network: str


@dataclass(frozen=True, slots=True)
class Contains:
    """`attribute CONTAINS [ALL | ANY | NONE] (values)`: a test of the whole set; None stands for null."""

    attribute: str
    quantifier: Quantifier
    values: tuple[Value | None, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """`attribute IS NULL`: it has no non-null value."""

    attribute: str


@dataclass(frozen=True, slots=True)
class IsMissing:
    """`attribute IS MISSING`: its set of values is empty."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a term."""

    term: Expression


@dataclass(frozen=True, slots=True)
class And:
    """True where all terms are."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True where some term is."""

    terms: tuple[Expression, ...]


Predicate: TypeAlias = (
    Constant
    | Compare
    | CompareAttributes
    | In
    | Like
    | ILike
    | StartsWith
    | EndsWith
    | RLike
    | InCidr
    | Contains
    | IsNull
    | IsMissing
)
Expression: TypeAlias = Predicate | Not | And | Or
