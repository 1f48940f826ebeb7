"""Compiles regular expressions to programs for a loop: position automata of at most 64 positions (Glushkov, 1961).

An expression has no program if it is long, or has flags, word boundaries, named classes or sets with characters beyond
ASCII. RE2 surely accepts an expression that has a program, or would have one without its flags and word boundaries,
unless it has named groups or repeated empty groups. So RE2 need not compile most expressions of a load to check them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int64s, Uint64Matrix, Uint64s
from whimbrel.compiled.helpers import Integer
from whimbrel.compiled.intrinsics import trailing_zeros
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.compiled.regex_atoms import (
    ALL,
    BAR,
    CLOSE,
    END_SYMBOL,
    FIRST,
    FOLLOW,
    LAST,
    MASKS,
    NONE,
    ONE,
    OPEN,
    POSITIONS,
    SHORTEST,
    START_SYMBOL,
    UNKNOWN,
    after_opening,
    after_unread,
    read_again,
    read_atom,
)
from whimbrel.compiled.views import read_only

_WORDS = FOLLOW + POSITIONS
_DEPTH = 32
"""Groups in groups, at most."""
Part: TypeAlias = "tuple[np.uint64, np.uint64, bool]"
"""A part of an expression: the positions that may begin and end it, and whether it may consume nothing."""


@inlined
def _link(program: Uint64s, last: np.uint64, first: np.uint64) -> None:
    while last != NONE:
        program[FOLLOW + np.int64(trailing_zeros(last))] |= first
        last &= last - ONE


@inlined
def _joined(program: Uint64s, one: Part, two: Part) -> Part:
    _link(program, one[1], two[0])
    first = one[0] | two[0] if one[2] else one[0]
    last = one[1] | two[1] if two[2] else two[1]
    return first, last, one[2] and two[2]


@helper
def _repeated(
    program: Uint64s, known: Integer, count: Integer, part: Part, least: Integer, most: Integer
) -> tuple[Integer, Part]:
    """Repeat the part that has the positions from `known` on. Return the new number of positions, and the new part."""
    size = count - known
    copies = max(least, most, 1)
    places = program[MASKS + START_SYMBOL] | program[MASKS + END_SYMBOL]
    if known + copies * size > POSITIONS or places >> np.uint64(known) != NONE:
        return UNKNOWN, part
    own = (ALL >> np.uint64(POSITIONS - size)) << np.uint64(known)
    found: Part = (NONE, NONE, True)
    first, last, is_empty = part
    for number in range(copies):
        if number > 0:
            for symbol in range(256):
                program[MASKS + symbol] |= (program[MASKS + symbol] & own) << np.uint64(number * size)
            for position in range(known, count):
                follow = program[FOLLOW + position] & own
                program[FOLLOW + position + number * size] = follow << np.uint64(number * size)
        shift = np.uint64(number * size)
        one: Part = (first << shift, last << shift, bool(is_empty or number >= least))
        if most < 0 and number + 1 == copies:
            _link(program, one[1], one[0])
        found = _joined(program, found, one)
    return known + copies * size, found


@inlined
def _is_known(program: Uint64s, count: Integer) -> bool:
    """Whether no position comes before ^ or behind $."""
    starts, ends = program[MASKS + START_SYMBOL], program[MASKS + END_SYMBOL]
    for position in range(count):
        follow = program[FOLLOW + position]
        is_end = ends >> np.uint64(position) & ONE != NONE
        if follow & starts != NONE or (is_end and follow != NONE):
            return False
    return True


@helper
def _read_program(
    data: Bytes, at: Integer, end: Integer, program: Uint64s, parts: Uint64Matrix, known: Int64s
) -> tuple[Integer, bool]:
    """Write a program. Return its words, 0 if there is none, and whether RE2 surely accepts the expression.

    `parts` and `known` are scratch for open groups: the part before each, and its first position.
    """
    program[:] = NONE
    count: Integer = np.int64(0)
    depth, is_sure, has_program = 0, True, True
    every: Part = (NONE, NONE, False)  # the alternatives before the last
    part: Part = (NONE, NONE, True)  # the last alternative so far
    while at < end:
        byte = data[at]
        if byte == BAR:
            every, part = (every[0] | part[0], every[1] | part[1], every[2] or part[2]), (NONE, NONE, True)
            at += 1
            continue
        after = after_unread(data, at, end)
        if after > at:
            at, has_program = after, False
            continue
        if byte == OPEN:
            at, has_name = after_opening(data, at, end)
            if at == UNKNOWN or depth == _DEPTH:
                return 0, False
            is_sure = is_sure and not has_name
            parts[depth, 0], parts[depth, 1], parts[depth, 2] = every[0], every[1], np.uint64(every[2])
            parts[depth, 3], parts[depth, 4], parts[depth, 5] = part[0], part[1], np.uint64(part[2])
            known[depth] = count
            depth += 1
            every, part = (NONE, NONE, False), (NONE, NONE, True)
            continue
        first: Integer = count
        if byte == CLOSE:
            if depth == 0:
                return 0, False
            depth, at = depth - 1, at + 1
            first = known[depth]
            atom: Part = (every[0] | part[0], every[1] | part[1], every[2] or part[2])
            every = parts[depth, 0], parts[depth, 1], parts[depth, 2] != NONE
            part = parts[depth, 3], parts[depth, 4], parts[depth, 5] != NONE
        else:
            at, count, begin, last = read_atom(data, at, end, program, count)
            if at == UNKNOWN:
                return 0, False
            atom = begin, last, False
        after, least, most = read_again(data, at, end)
        if after == UNKNOWN:
            return 0, False
        if after > at and first == count:  # an empty group: RE2 refuses to repeat it too often
            is_sure = False
        elif after > at:
            count, atom = _repeated(program, first, count, atom, least, most)
            if count == UNKNOWN:
                return 0, False
        at = after
        part = _joined(program, part, atom)
    if depth > 0:
        return 0, False
    program[SHORTEST] = np.uint64(every[2] or part[2])
    program[FIRST], program[LAST] = every[0] | part[0], every[1] | part[1]
    return (FOLLOW + count if has_program and _is_known(program, count) else 0), is_sure


@kernel
def measure_programs(begin: Int64s, end: Int64s, data: Bytes, longest: int) -> tuple[np.ndarray, np.ndarray]:
    """For each expression data[begin:end] the words of its program, or 0, and whether RE2 surely accepts it.

    Expressions of more than `longest` bytes are not read.
    """
    words, is_sure = np.zeros(begin.size, np.int64), np.zeros(begin.size, np.bool_)
    program, parts, known = np.empty(_WORDS, np.uint64), np.empty((_DEPTH, 6), np.uint64), np.empty(_DEPTH, np.int64)
    for i in range(begin.size):
        if end[i] - begin[i] <= longest:
            words[i], is_sure[i] = _read_program(data, begin[i], end[i], program, parts, known)
    return words, is_sure


@kernel
def write_programs(begin: Int64s, end: Int64s, data: Bytes, place: Int64s, out: Uint64s) -> None:
    """Write the programs of expressions that have one, each from its place on."""
    program, parts, known = np.empty(_WORDS, np.uint64), np.empty((_DEPTH, 6), np.uint64), np.empty(_DEPTH, np.int64)
    for i in range(begin.size):
        words, _ = _read_program(data, begin[i], end[i], program, parts, known)
        for word in range(words):
            out[place[i] + word] = program[word]


def program_sizes(regexes: Sequence[str], longest: int) -> tuple[np.ndarray, np.ndarray]:
    """Do what `measure_programs` does for a list of texts."""
    texts = [regex.encode() for regex in regexes]
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    begins = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
    return measure_programs(read_only(begins), read_only(ends), np.frombuffer(b"".join(texts), np.uint8), longest)
