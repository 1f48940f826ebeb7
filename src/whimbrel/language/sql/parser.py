"""Parses SQL text to a template, by precedence climbing over the list of tokens.

AND, OR and IN chains of any length are loops; only parentheses and NOT recurse, and FILTER_DEPTH bounds them, so
that hostile text gives an error and never a stack overflow. Literals become slots (`template.py`), which lets
one parse serve every text of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable

from whimbrel.language.sql.lexer import position_of
from whimbrel.language.sql.operands import OPERAND, OperandReader, OperandToken
from whimbrel.language.sql.template import (
    FALSE,
    NULL,
    TRUE,
    AllOf,
    AnyOf,
    Case,
    CompareSlot,
    CompareSlots,
    ContainsSlots,
    InSlots,
    Negation,
    Ready,
    Template,
    TemplateNode,
    TextOperator,
    TextSlot,
)
from whimbrel.model.errors import FilterSyntaxError
from whimbrel.model.expression import (
    FLIPPED,
    CompareAttributes,
    Comparison,
    Constant,
    IsMissing,
    IsNull,
    Quantifier,
)

_COMPARISONS: dict[str, Comparison] = dict(zip(FLIPPED, FLIPPED, strict=True)) | {"==": "=", "<>": "!="}
_QUANTIFIERS: dict[str, Quantifier] = {"ALL": "ALL", "ANY": "ANY", "NONE": "NONE"}
_JOINS: dict[str, tuple[int, type[AllOf] | type[AnyOf]]] = {"OR": (1, AnyOf), "AND": (2, AllOf)}
_NOT = 3
_CONSTANTS = {TRUE: Ready(Constant(True)), FALSE: Ready(Constant(False)), NULL: Ready(Constant(None))}


class SqlParser(OperandReader):
    """Parses operators: first predicates, then NOT, AND and OR of them."""

    __slots__ = ()

    def template(self) -> Template:
        """The template of the whole text; FilterSyntaxError or LimitExceeded with the place."""
        root = self.condition(self.expression(0))
        if self.tokens[self.at]:
            raise self.error("AND, OR or the end of the filter")
        return Template(
            root, tuple(self.strings), self.numbers, tuple(self.negatives), tuple(self.dates), self.has_list
        )

    def expression(self, power: int) -> OperandToken | TemplateNode:
        """The longest expression whose joins bind tighter than `power`."""
        word = self.words[self.at]
        if word == "(":
            left = self._parenthesised()
        elif word in ("NOT", "!"):
            left = self._negation()
        elif self.is_call():
            left = self.call()
        else:
            left = self.bare_operand("an attribute, a literal, NOT or '('")
        if isinstance(left, OperandToken):
            left = self._predicate(left)
        while True:
            join = _JOINS.get(self.words[self.at])
            if join is None or join[0] <= power:
                return left
            left = self._chain(left, *join)

    def condition(self, term: OperandToken | TemplateNode) -> TemplateNode:
        """The term as a condition: a bare attribute means `attribute = TRUE`."""
        if not isinstance(term, OperandToken):
            return term
        self.count()
        if term.case is not None:
            raise self.error(f"a condition such as {term.case}(a) = 'x'", term.token)
        if term.name is not None:
            return CompareSlot(term.name, "=", TRUE)
        constant = _CONSTANTS.get(term.slot)
        if constant is None:
            raise self.error("a condition", term.token)
        return constant

    def _negation(self) -> TemplateNode:
        self.deeper()
        term = self.condition(self.expression(_NOT))
        self.depth -= 1
        return Negation(term)

    def _parenthesised(self) -> OperandToken | TemplateNode:
        self.deeper()
        inside = self.expression(0)
        if self.tokens[self.at] != ")":
            raise self.error("an operator or ')'" if isinstance(inside, OperandToken) else "AND, OR or ')'")
        self.at += 1
        self.depth -= 1
        return inside

    def _chain(self, left: OperandToken | TemplateNode, power: int, kind: type[AllOf] | type[AnyOf]) -> TemplateNode:
        word = self.words[self.at]
        terms: list[TemplateNode] = []
        term = self.condition(left)
        while True:
            if isinstance(term, kind):
                terms += term.terms
            else:
                terms.append(term)
            if self.words[self.at] != word:
                return kind(tuple(terms))
            self.at += 1
            term = self.condition(self.expression(power))

    def operand(self, expected: str = OPERAND) -> OperandToken:
        """An operand, which may stand in parentheses."""
        at = self.at
        if self.tokens[at] != "(" and not self.is_call():
            return self.bare_operand(expected)
        inside = self._parenthesised() if self.tokens[at] == "(" else self.call()
        if not isinstance(inside, OperandToken):
            raise FilterSyntaxError(expected, "a condition", self.text, position_of(self.text, at))
        return inside

    def _predicate(self, left: OperandToken) -> OperandToken | TemplateNode:
        """The predicate that starts with this operand, or the operand itself when no operator follows."""
        op = _COMPARISONS.get(self.tokens[self.at])
        if op is not None:
            self.at += 1
            return self._compare(left, op, self.operand())
        if self.tokens[self.at] == "<=>":
            self.at += 1
            return self._same(left, self.operand())
        rule = _RULES.get(self.words[self.at])
        if rule is None:
            return left
        self.at += 1
        return rule(self, left)

    def _compare(self, left: OperandToken, op: Comparison, right: OperandToken) -> TemplateNode:
        self.count()
        if left.case is not None or right.case is not None:
            return self._compare_folded(left, op, right)
        if left.name is not None:
            if right.name is not None:
                return Ready(CompareAttributes(left.name, op, right.name))
            return CompareSlot(left.name, op, right.slot)
        if right.name is not None:
            return CompareSlot(right.name, FLIPPED[op], left.slot)
        return CompareSlots(left.slot, op, right.slot)

    def _compare_folded(self, left: OperandToken, op: Comparison, right: OperandToken) -> TemplateNode:
        """A comparison with `lower(a)` or `upper(a)`; the text beside it may be in such a function, too."""
        if left.name is None:
            left, right = right, left
        if left.name is None or left.case is None or right.name is not None or op not in ("=", "!="):
            raise self.error("lower(a) or upper(a) with =, !=, IN, LIKE, STARTS WITH or ENDS WITH and text", left.token)
        self.check_text(right, f"text beside {left.case}(...)")
        test = TextSlot("EQUAL", left.name, right.slot, left.case if right.case is None else "any")
        return test if op == "=" else Negation(test)

    def _same(self, left: OperandToken, right: OperandToken) -> TemplateNode:
        """`<=>`: equal, or both without a value; never unknown."""
        if left.name is None:
            left, right = right, left
        if left.name is None:  # two literals
            if NULL in (left.slot, right.slot):
                return _CONSTANTS[TRUE if left.slot == right.slot else FALSE]
            return self._compare(left, "=", right)
        equal, is_null = self._compare(left, "=", right), Ready(IsNull(left.name))
        if right.name is not None:
            other = Ready(IsNull(right.name))
            both = AllOf((equal, Negation(is_null), Negation(other)))
            return AnyOf((both, AllOf((is_null, other))))
        return is_null if right.slot == NULL else AllOf((equal, Negation(is_null)))

    def _negated(self, left: OperandToken) -> TemplateNode:
        word = self.words[self.at]
        rule = _RULES.get(word)
        if rule is None or word in ("NOT", "IS"):
            raise self.error("IN, BETWEEN, LIKE, ILIKE, RLIKE, CONTAINS, STARTS WITH or ENDS WITH after NOT")
        self.at += 1
        return Negation(rule(self, left))

    def _between(self, left: OperandToken) -> TemplateNode:
        low = self.operand()
        if self.words[self.at] != "AND":
            raise self.error("AND of BETWEEN")
        self.at += 1
        high = self.operand()
        return AllOf((self._compare(left, ">=", low), self._compare(left, "<=", high)))

    def _in(self, left: OperandToken) -> TemplateNode:
        if self.words[self.at] == "CIDR":
            self.at += 1
            return self._text(left, "CIDR", "IN CIDR")
        if left.name is not None and left.case is not None:
            return self._in_folded(left.name, left.case)
        attribute = self.attribute(left, "IN")
        return InSlots(attribute, self._list("IN"))

    def _in_folded(self, name: str, case: Case) -> TemplateNode:
        at = self.at
        slots = self._list("IN")
        for slot in slots:
            self.check_text(OperandToken(None, slot, at), f"texts in the list after {case}(...)")
        self.count(len(slots) - 1)
        tests = tuple([TextSlot("EQUAL", name, slot, case) for slot in slots])
        return tests[0] if len(tests) == 1 else AnyOf(tests)

    def _list(self, operator: str) -> tuple[int, ...]:
        """The slots of a parenthesised list of literals."""
        self.count()
        if self.tokens[self.at] != "(":
            raise self.error(f"'(' after {operator}")
        self.at += 1
        self.has_list = True
        return self.literals_in_list()

    def _contains(self, left: OperandToken) -> TemplateNode:
        attribute = self.attribute(left, "CONTAINS")
        quantifier = _QUANTIFIERS.get(self.words[self.at])
        if quantifier is None:
            self.count()
            return ContainsSlots(attribute, "ALL", (self.literal("a literal, ALL, ANY or NONE").slot,))
        self.at += 1
        return ContainsSlots(attribute, quantifier, self._list(f"CONTAINS {quantifier}"))

    def _is(self, left: OperandToken) -> TemplateNode:
        attribute = self.attribute(left, "IS")
        self.count()
        negated = self.words[self.at] == "NOT"
        self.at += negated
        word = self.words[self.at]
        test: TemplateNode
        if word in ("TRUE", "FALSE"):
            is_null = Ready(IsNull(attribute))
            test = AllOf((CompareSlot(attribute, "=", TRUE if word == "TRUE" else FALSE), Negation(is_null)))
        elif word in ("NULL", "MISSING"):
            test = Ready(IsNull(attribute) if word == "NULL" else IsMissing(attribute))
        else:
            raise self.error("NULL, MISSING, TRUE or FALSE" if negated else "NULL, MISSING, TRUE, FALSE or NOT")
        self.at += 1
        return Negation(test) if negated else test

    def _like(self, left: OperandToken, words: str = "LIKE") -> TemplateNode:
        test = self._text(left, "LIKE", words)
        if words == "ILIKE":
            test.case = "any"
        if self.words[self.at] != "ESCAPE":
            return test
        self.at += 1
        at, escape = self.at, self.text_literal("ESCAPE")
        if escape == NULL:
            raise self.error("text after ESCAPE", at)
        test.escape = escape
        return test

    def _with(self, left: OperandToken, operator: TextOperator) -> TemplateNode:
        if self.words[self.at] != "WITH":
            raise self.error(f"WITH after {operator}")
        self.at += 1
        return self._text(left, operator, f"{operator} WITH")

    def _text(self, left: OperandToken, operator: TextOperator, words: str) -> TextSlot:
        self.count()
        if left.name is not None and left.case is not None and operator not in ("RLIKE", "CIDR"):
            return TextSlot(operator, left.name, self.text_literal(words), left.case)
        return TextSlot(operator, self.attribute(left, words), self.text_literal(words))


_RULES: dict[str, Callable[[SqlParser, OperandToken], TemplateNode]] = {
    "NOT": SqlParser._negated,
    "IN": SqlParser._in,
    "BETWEEN": SqlParser._between,
    "LIKE": SqlParser._like,
    "ILIKE": lambda parser, left: parser._like(left, "ILIKE"),
    "IS": SqlParser._is,
    "CONTAINS": SqlParser._contains,
    "STARTS": lambda parser, left: parser._with(left, "STARTS"),
    "ENDS": lambda parser, left: parser._with(left, "ENDS"),
    "RLIKE": lambda parser, left: parser._text(left, "RLIKE", "RLIKE"),
}
