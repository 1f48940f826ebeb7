"""Regular expressions as programs for a compiled loop: position automata of at most 64 positions.

A position is a byte, or a set of bytes, that the expression consumes (Glushkov, 1961). The start and the end of a text
are consumed like bytes, by ^ and $. A character beyond ASCII is consumed by a position for its first byte and one for
those that follow: texts are valid UTF-8. An expression has no program if it is long, or has flags, word boundaries,
classes by name or sets with characters beyond ASCII.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

POSITIONS = 64
START_SYMBOL, END_SYMBOL, SYMBOLS = 256, 257, 258
"""The start and the end of a text, behind the 256 bytes."""
SHORTEST, FIRST, LAST, MASKS = 0, 1, 2, 3
"""Words of a program: 1 if every text has a match; the positions that begin and end a match; then for each symbol the
positions that consume it; then for each position those that may follow."""

_ASCII, _LEAD, _MORE = (1 << 128) - 1, ((1 << 64) - 1) << 192, ((1 << 64) - 1) << 128
"""Sets of symbols: ASCII, the first bytes of other characters, and the bytes after those."""
_MOST_REPEATED = 32


def _set(symbols: bytes) -> int:
    return sum(1 << symbol for symbol in set(symbols))


_DIGITS, _SPACES = _set(b"0123456789"), _set(b"\t\n\f\r ")
_WORD = _DIGITS | _set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_CLASSES = {"d": _DIGITS, "s": _SPACES, "w": _WORD}
_SIGNS = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}
_PLAIN = re.compile(r"[A-Za-z0-9 _/:;,<>=&%#@!~\"'-]+(?![*+?{])")
_AGAIN = re.compile(r"([*+?]|\{(\d+)(,?)(\d*)\})\??")
_GROUP = re.compile(r"\((\?(:|P?<\w+>)|(?!\?))")


class _Unknown(Exception):
    """The expression has no program."""


class _Part(NamedTuple):
    """A part of an expression: the positions that may begin and end it, and whether it may consume nothing."""

    first: int
    last: int
    is_empty: bool


_NOTHING = _Part(0, 0, True)


class _Reader:
    """Reads an expression from left to right, and numbers its positions."""

    def __init__(self, regex: str) -> None:
        self.regex, self.at = regex, 0
        self.symbols: list[int] = []
        self.follow: list[int] = []

    def alternatives(self) -> _Part:
        """What stands up to the end, or to a closing parenthesis."""
        found = self._sequence()
        while self._next() == "|":
            self.at += 1
            other = self._sequence()
            found = _Part(found.first | other.first, found.last | other.last, found.is_empty or other.is_empty)
        return found

    def _next(self) -> str:
        return self.regex[self.at : self.at + 1]

    def _sequence(self) -> _Part:
        found = _NOTHING
        while self._next() not in ("", "|", ")"):
            found = self._joined(found, self._plain() or self._repeated())
        return found

    def _plain(self) -> _Part | None:
        """The letters that stand here, but for the last one if it is repeated."""
        run = _PLAIN.match(self.regex, self.at)
        if run is None:
            return None
        self.at = run.end()
        first, count = len(self.symbols), len(run[0])
        self.symbols += [1 << byte for byte in run[0].encode()]
        if len(self.symbols) > POSITIONS:
            raise _Unknown
        self.follow += [1 << position for position in range(first + 1, first + count)] + [0]
        return _Part(1 << first, 1 << (first + count - 1), False)

    def _joined(self, one: _Part, two: _Part) -> _Part:
        self._link(one.last, two.first)
        first = one.first | two.first if one.is_empty else one.first
        last = one.last | two.last if two.is_empty else two.last
        return _Part(first, last, one.is_empty and two.is_empty)

    def _link(self, last: int, first: int) -> None:
        while last:
            self.follow[last.bit_length() - 1] |= first
            last ^= 1 << (last.bit_length() - 1)

    def _repeated(self) -> _Part:
        """An atom as often as the sign behind it says."""
        begin, known = self.at, len(self.symbols)
        atom = self._atom()
        again = _AGAIN.match(self.regex, self.at)
        if again is None:
            return atom
        after = again.end()
        if _AGAIN.match(self.regex, after) or any(own >> START_SYMBOL for own in self.symbols[known:]):
            raise _Unknown
        sign, low, comma, high = again.groups()
        least = {"*": 0, "+": 1, "?": 0}.get(sign, int(low or 0))
        most = {"*": None, "+": None, "?": 1}.get(sign, int(high) if high else None if comma else least)
        if max(least, most or 0) > _MOST_REPEATED or most == 0:
            raise _Unknown
        found = _NOTHING
        for number in range(max(least, most or 1)):
            if number > 0:
                self.at = begin
                atom = self._atom()
            if most is None and number + 1 == max(least, 1):
                self._link(atom.last, atom.first)
            found = self._joined(found, atom._replace(is_empty=atom.is_empty or number >= least))
        self.at = after
        return found

    def _atom(self) -> _Part:
        letter = self._next()
        self.at += 1
        if letter == "(":
            return self._group()
        if letter == "[":
            return self._character(*self._members())
        if letter == "\\":
            return self._escaped()
        if letter in "*+?{}])":
            raise _Unknown
        if letter in "^$":
            return self._position(1 << (START_SYMBOL if letter == "^" else END_SYMBOL))
        if letter == ".":
            return self._character(_ASCII & ~(1 << 10), True)
        return self._text(letter)

    def _group(self) -> _Part:
        found = _GROUP.match(self.regex, self.at - 1)
        if found is None:
            raise _Unknown
        self.at = found.end()
        inside = self.alternatives()
        if self._next() != ")":
            raise _Unknown
        self.at += 1
        return inside

    def _text(self, letter: str) -> _Part:
        found = _NOTHING
        for byte in letter.encode():
            found = self._joined(found, self._position(1 << byte))
        return found

    def _position(self, symbols: int) -> _Part:
        if len(self.symbols) == POSITIONS:
            raise _Unknown
        self.symbols.append(symbols)
        self.follow.append(0)
        own = 1 << (len(self.symbols) - 1)
        return _Part(own, own, False)

    def _character(self, ascii: int, is_beyond: bool) -> _Part:
        """A character of a set of ASCII, or any one beyond ASCII too."""
        found = self._position(ascii)
        if not is_beyond:
            return found
        lead, more = self._position(_LEAD), self._position(_MORE)
        self._link(lead.last | more.last, more.first)
        return _Part(found.first | lead.first, found.last | lead.last | more.last, False)

    def _escaped(self) -> _Part:
        letter = self._next()
        self.at += 1
        if letter in ("A", "z"):
            return self._position(1 << (START_SYMBOL if letter == "A" else END_SYMBOL))
        if letter and letter.lower() in _CLASSES:
            is_negated = letter.isupper()
            symbols = _CLASSES[letter.lower()]
            return self._character(_ASCII & ~symbols if is_negated else symbols, is_negated)
        return self._text(chr(self._sign(letter)))

    def _sign(self, letter: str) -> int:
        """The code of an escaped sign."""
        if letter in _SIGNS:
            return _SIGNS[letter]
        if not letter or not letter.isascii() or letter.isalnum():
            raise _Unknown
        return ord(letter)

    def _members(self) -> tuple[int, bool]:
        """The members of a set in brackets, and whether it has all characters beyond ASCII."""
        is_negated = self._next() == "^"
        self.at += is_negated
        symbols, is_first = 0, True
        while is_first or self._next() != "]":
            is_first = False
            low = self._member()
            if isinstance(low, int) and self._next() == "-" and self.regex[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._member()
                if not isinstance(high, int):
                    raise _Unknown
                symbols |= sum(1 << code for code in range(low, high + 1))
            else:
                symbols |= 1 << low if isinstance(low, int) else _CLASSES[low]
        self.at += 1
        return (_ASCII & ~symbols if is_negated else symbols), is_negated

    def _member(self) -> int | str:
        """The code of a member, or the letter of a class."""
        letter = self._next()
        self.at += 1
        if letter == "\\":
            letter = self._next()
            self.at += 1
            return letter if letter in _CLASSES else self._sign(letter)
        if not letter or not letter.isascii() or (letter == "[" and self._next() == ":"):
            raise _Unknown
        return ord(letter)


@lru_cache(4_096)
def program_of(regex: str) -> np.ndarray | None:
    """The words of the program of an expression, as uint64, or None if it has none."""
    reader = _Reader(regex)
    try:
        whole = reader.alternatives()
    except _Unknown:
        return None
    masks = _masks(reader.symbols)
    starts, ends = int(masks[START_SYMBOL]), int(masks[END_SYMBOL])
    is_odd = any(
        follow & starts or (ends >> position & 1 and follow) for position, follow in enumerate(reader.follow)
    )  # ^ behind something, or something behind $
    if reader.at < len(regex) or is_odd:
        return None
    head, tail = (np.array(words, np.uint64) for words in ([whole.is_empty, whole.first, whole.last], reader.follow))
    return np.concatenate([head, masks, tail])


def _masks(symbols: list[int]) -> np.ndarray:
    """For each symbol the positions that consume it."""
    single = [0] * SYMBOLS
    for position, own in enumerate(symbols):
        if not own & (own - 1):
            single[own.bit_length() - 1] |= 1 << position
    masks = np.array(single, np.uint64)
    for position, own in enumerate(symbols):
        if own & (own - 1):
            members = np.frombuffer(own.to_bytes(33, "little"), np.uint8)
            masks[np.unpackbits(members, bitorder="little")[:SYMBOLS] != 0] |= np.uint64(1 << position)
    return masks
