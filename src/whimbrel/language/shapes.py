"""The shape cache: a text that differs from an earlier one in its literals only is bound, not parsed.

One `re.split` cuts the literals out. What is left, and the kind of each literal, is the key of the shape: between
two literals the tokens do not depend on what the literals are, because a string ends at its quote and a number is
never next to a letter, a digit or a dot. Only quoted names could hide a quote or a digit; a text with one is
keyed by its tokens, which is exact too and slower.
"""

from __future__ import annotations

import re
from threading import Lock
from typing import TypeAlias

from whimbrel.language.sql_lexer import NUMBER_IN_TEXT_PATTERN, STRING_PATTERN, check_text, is_literal, tokens
from whimbrel.language.sql_parser import parse_template
from whimbrel.language.template import Template
from whimbrel.model.expression import Expression
from whimbrel.model.limits import Limit

SHAPES = Limit("cached shapes", 4_096, "shapes", "a shape takes a few kilobytes, and a service sees few of them")
SHAPE_LENGTH = Limit("cached shape length", 4_096, "characters", "one huge filter must not cost what many small do")

Key: TypeAlias = tuple[str | bool, ...]

_split = re.compile(f"({STRING_PATTERN}|{NUMBER_IN_TEXT_PATTERN})").split


def split(text: str) -> tuple[Key, list[str]]:
    """The key of the text's shape, and its literals.

    >>> split("a = 5 AND b < 'x'")
    (('a = \\x00 AND b < \\x00', False, True), ['5', "'x'"])
    """
    parts = _split(text)
    literals = parts[1::2]
    rest = "\0".join(parts[::2])
    if '"' in rest or "`" in rest:
        return _split_tokens(text)
    return (rest, *[literal < "." for literal in literals]), literals  # a quote sorts before digits and dot


def _split_tokens(text: str) -> tuple[Key, list[str]]:
    cut = tokens(text)
    literals = [token for token in cut if is_literal(token)]
    return tuple([token < "." if is_literal(token) else token for token in cut]), literals


class ShapeCache:
    """Templates by key: the newest half of the places, and the older half until the newest is full.

    A template found among the older moves to the newest, so what is in use stays. Reads take no lock: a dict is
    replaced whole, never emptied, and the worst a race can do is to parse a text once more.
    """

    def __init__(self, size: int = SHAPES.value) -> None:
        self._half = max(1, size // 2)
        self._newest: dict[Key, Template] = {}
        self._older: dict[Key, Template] = {}
        self._turn = Lock()

    def __len__(self) -> int:
        return len(self._newest.keys() | self._older.keys())

    def get(self, key: Key) -> Template | None:
        """The template of the shape, if it is there."""
        template = self._newest.get(key)
        if template is None:
            template = self._older.get(key)
            if template is not None:
                self.put(key, template)
        return template

    def put(self, key: Key, template: Template) -> None:
        """Keep the template of a shape."""
        with self._turn:
            if len(self._newest) >= self._half:
                self._older, self._newest = self._newest, {}
            self._newest[key] = template

    def template(self, text: str) -> tuple[Template, list[str]]:
        """The template of a text and its literals, parsed only if the shape is new."""
        check_text(text)
        key, literals = split(text)
        template = self.get(key)
        if template is None:
            template, literals = parse_template(text)
            if len(text) <= SHAPE_LENGTH.value:
                self.put(key, template)
        return template, literals

    def parse(self, text: str) -> Expression:
        """The expression of a text."""
        template, literals = self.template(text)
        return template.bind(literals, text)

    def _check(self) -> None:
        assert len(self._newest) <= self._half and len(self._older) <= self._half


def parse_uncached(text: str) -> Expression:
    """The expression of a text, parsed without the cache: what the cache must agree with."""
    check_text(text)
    template, literals = parse_template(text)
    return template.bind(literals, text)
