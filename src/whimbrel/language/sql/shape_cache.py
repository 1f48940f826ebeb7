"""The shape cache: a text that differs from an earlier one in its literals only is bound, not parsed.

The key of a shape is its skeleton: the text with one quote in the place of each number and two in the place of each
string. Strings are cut out at their quotes, then numbers with one regular expression. That is exact: a string ends at
its quote and a number is never next to a letter, a digit or a dot, so the tokens between two literals do not depend on
the literals. In texts with quoted names or doubled quotes a quote may mean something else; their key is the tuple of
their tokens, which is exact too, but slower.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from threading import Lock
from typing import TypeAlias

from whimbrel.language.sql.lexer import NUMBER_IN_TEXT_PATTERN, check_text, is_literal, string_value, tokens
from whimbrel.language.sql.parser import SqlParser
from whimbrel.language.sql.template import LateFilter, Template
from whimbrel.model.filter import Filter
from whimbrel.model.limits import INTEGER_DIGITS, Limit

SHAPES = Limit("cached shapes", 4_096, "shapes", "a shape takes a few kilobytes, and a service sees few of them")
SHAPE_LENGTH = Limit("cached shape length", 4_096, "characters", "one huge filter must not cost what many small do")

_split_numbers = re.compile(f"({NUMBER_IN_TEXT_PATTERN})").split


CutText: TypeAlias = tuple[Hashable, list[str], list[str]]
"""The skeleton of a text, the contents of its strings, and its numbers as they are written."""


def cut_literals(text: str) -> CutText:
    """Cut the literals out of a text.

    >>> cut_literals("a = 5 AND b < 'x'")
    ("a = ' AND b < ''", ['x'], ['5'])
    """
    parts = text.split("'")
    rest = "''".join(parts[::2])
    if len(parts) % 2 == 0 or "''''" in rest or '"' in rest or "`" in rest:
        return cut_tokens(text)
    split = _split_numbers(rest)
    return "'".join(split[::2]), parts[1::2], split[1::2]


def cut_tokens(text: str) -> CutText:
    """Cut the literals out of a text token by token, whatever its quotes mean."""
    rest: list[str] = []
    strings: list[str] = []
    numbers: list[str] = []
    for token in tokens(text):
        if not is_literal(token):
            rest.append(token)
        elif token[0] == "'":
            rest.append("''")
            strings.append(string_value(token))
        else:
            rest.append("'")
            numbers.append(token)
    return tuple(rest), strings, numbers


class ShapeCache:
    """Templates by skeleton, in two halves: when the newer half is full, it replaces the older one, which is dropped.

    A template found in the older half moves to the newer, so templates in use stay. A shape is kept when it is met for
    the second time: shapes that never come again then neither displace others nor cost memory.
    Reads take no lock: a dict is replaced whole, never emptied, and the worst a race can do is one more parse.
    """

    def __init__(self, size: int = SHAPES.value) -> None:
        self._half = max(1, size // 2)
        self._newest: dict[Hashable, Template] = {}
        self._older: dict[Hashable, Template] = {}
        self._met: set[int] = set()  # hashes of keys met once
        self._turn = Lock()

    def __len__(self) -> int:
        return len(self._newest.keys() | self._older.keys())

    def get(self, key: Hashable) -> Template | None:
        """The template of the shape, if it is there."""
        template = self._newest.get(key)
        if template is None:
            template = self._older.get(key)
            if template is not None:
                self._keep(key, template)
        return template

    def offer(self, key: Hashable, template: Template) -> None:
        """Keep the template of a shape, if the shape has been met before."""
        mark = hash(key)
        if mark in self._met:
            self._keep(key, template)
            return
        with self._turn:
            if len(self._met) >= self._half:
                self._met = set()
            self._met.add(mark)

    def _keep(self, key: Hashable, template: Template) -> None:
        with self._turn:
            if len(self._newest) >= self._half:
                self._older, self._newest = self._newest, {}
            self._newest[key] = template

    def template(self, text: str) -> tuple[Template, CutText]:
        """The template of a text, parsed only if its shape is new, and the text without its literals."""
        check_text(text)
        parts = cut_literals(text)
        template = self.get(parts[0])
        if template is None:
            template = SqlParser(text).template()
            if len(text) <= SHAPE_LENGTH.value:
                self.offer(parts[0], template)
        return template, parts

    def parse(self, text: str) -> Filter:
        """The filter of a text. If no literal of it can be refused, its literals are bound on first use."""
        template, (_, strings, numbers) = self.template(text)
        if template.is_plain and len(text) <= INTEGER_DIGITS.value:
            return LateFilter(template, strings, numbers, text)
        return Filter(template.bind(strings, numbers, text), text, "sql")

    def _check(self) -> None:
        assert max(len(self._newest), len(self._older), len(self._met)) <= self._half
