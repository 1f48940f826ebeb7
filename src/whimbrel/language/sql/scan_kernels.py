"""Scans the bytes of many texts: tokens, the structure of AND, OR, NOT and parentheses, and literals.

A predicate is cut out as a skeleton: its tokens with one space between them, reserved words in capital letters, '' for
a string and 0 for a number. A word behind an operand, a parenthesis or a string is a keyword or a function, and has
capital letters too. Each distinct skeleton is later parsed once, by the parser of the language, which alone knows what
predicates mean. A list of only strings or only numbers is written as a list of one, and its length is kept, so that
lists of all lengths have one skeleton. NOT is pushed down to the predicates and AND is distributed over OR, so that a
text becomes an OR of conjunctions of predicates and negated predicates.

A text with anything that the loops do not know (bad syntax, more conjunctions than a filter may have) is left to the
parser.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Floats, Int32s, Int64s
from whimbrel.compiled.helpers import item
from whimbrel.compiled.jit import inlined, kernel
from whimbrel.language.sql.expansion_kernels import (
    CONJUNCTIONS,
    JOIN_AND,
    JOIN_OR,
    LEAVES,
    MEANS_AND,
    NEGATION,
    PARENTHESIS,
    REFERENCES,
    Expansion,
    add_leaf,
    join_waiting,
)
from whimbrel.language.sql.token_kernels import (
    AND,
    BANG,
    BETWEEN,
    CLOSE,
    COMMA,
    DIGIT,
    EQUAL,
    GREATER,
    KIND,
    LESS,
    LETTER,
    MINUS,
    NOT,
    ODD,
    OPEN,
    OR,
    PLUS,
    POINT_KIND,
    QUOTE,
    QUOTED,
    SMALL_A,
    SMALL_Z,
    SPACE,
    SPACES,
    STRING,
    SYMBOL,
    ZERO,
    SkeletonPool,
    after_name,
    copy_string,
    is_reserved_word,
    is_two,
    read_number,
    skeleton_number,
    word_key,
)
from whimbrel.model.limits import FILTER_DEPTH, IN_MEMBERS

_START, _OPERAND, _STRING_TOKEN, _NUMBER_TOKEN, _COMMA_TOKEN, _OPERATOR = range(6)
"""Kinds of last token of a predicate. A sign is part of the number after it behind `_START` or from `_COMMA` on."""
DEPTH = FILTER_DEPTH.value
"""Parentheses and NOTs around a predicate, at most."""
_MEMBERS = IN_MEMBERS.value


class TextBytes(NamedTuple):
    """Many texts: text i is `data[offsets[i]:offsets[i + 1]]`, in UTF-8."""

    offsets: Int64s
    data: Bytes


class ScannedTexts(NamedTuple):
    """The parts of all texts, text after text. Leaves are the predicates, in the order of the text.

    `leaves` and `conjunctions` count those of each text: 0 if it is left to the parser. A leaf has `code`, twice the
    number of its skeleton, plus one if it is negated; its first number and string; and the length of its list, or 1.
    `integers` has the numbers as integers, or `NO_INTEGER`. `long_number` names the numbers that must be read again,
    from the bytes `long_begin` to `long_end`: the place in `numbers` plus one, negative behind a minus.
    String i is `string_bytes[string_start[i]:string_start[i + 1]]`.
    """

    leaves: Int32s
    conjunctions: Int32s
    code: Int32s
    first_number: Int32s
    first_string: Int32s
    length: Int32s
    numbers: Floats
    integers: Int64s
    long_number: Int64s
    long_begin: Int64s
    long_end: Int64s
    string_start: Int64s
    string_bytes: Bytes


@inlined
def _after_spaces(data: Bytes, at: int, end: int) -> int:
    while at < end and KIND[item(data, at)] == SPACES:
        at += 1
    return at


@inlined
def _appended(out: Int32s, used: int, values: Int64s, count: int) -> tuple[np.ndarray, int]:
    """Append the first `count` values behind the `used` ones; return the array, which may be new, and the new use."""
    if used + count > out.size:
        larger = np.empty(2 * (used + count), np.int32)
        larger[:used] = out[:used]
        out = larger
    for i in range(count):
        out[used + i] = values[i]
    return out, used + count


@inlined
def _write_word(data: Bytes, at: int, stop: int, is_keyword: bool, rest: Bytes, size: int) -> int:
    """Append a name, or a keyword in capitals, to the skeleton; return its new size."""
    for place in range(at, stop):
        rest[size] = item(data, place)
        size += 1
    if is_keyword:
        _capitalise(rest, size - (stop - at), size)
    return size


@inlined
def _capitalise(rest: Bytes, begin: int, end: int) -> None:
    for place in range(begin, end):
        rest[place] -= 32 if SMALL_A <= rest[place] <= SMALL_Z else 0


@inlined
def _write_members(rest: Bytes, at: int, size: int, is_string: bool, more: int) -> int:
    """Insert `more` members behind a list of one that ends at `at` of the skeleton; return its new size."""
    step = 5 if is_string else 4
    for place in range(size - 1, at - 1, -1):
        rest[place + more * step] = rest[place]
    for member in range(more):
        begin = at + member * step
        rest[begin] = rest[begin + 2] = SPACE
        rest[begin + 1] = COMMA
        rest[begin + 3] = QUOTE if is_string else ZERO
        if is_string:
            rest[begin + 4] = QUOTE
    return size + more * step


@inlined
def _write_symbol(data: Bytes, at: int, end: int, rest: Bytes, size: int) -> tuple[int, int, int]:
    """Append an operator of one to three signs to the skeleton; return its end, the new size, and its kind."""
    symbol = item(data, at)
    token = _COMMA_TOKEN if symbol == COMMA else _OPERAND if symbol == CLOSE else _OPERATOR
    signs = 1
    if at + 1 < end and is_two(symbol, item(data, at + 1)):
        is_same = symbol == LESS and data[at + 1] == EQUAL and at + 2 < end and data[at + 2] == GREATER  # <=>
        signs += 1 + is_same
    for place in range(at, at + signs):
        rest[size] = item(data, place)
        size += 1
    return at + signs, size, token


@inlined
def _without_negations(operators: Bytes, waiting: int, nested: int, is_negated: bool) -> tuple[int, int, bool]:
    """Take waiting NOTs off the stack; return how many operators wait, the depth, and whether all is negated."""
    while waiting > 0 and operators[waiting - 1] == NEGATION:
        waiting -= 1
        nested -= 1
        is_negated = not is_negated
    return waiting, nested, is_negated


@kernel
def scan_texts(
    texts: TextBytes, longest: int, pool: SkeletonPool, out: ScannedTexts
) -> tuple[int, int, int, int, int, np.ndarray, np.ndarray]:
    """Scan every text of at most `longest` bytes.

    Writes to `pool` and `out`. Returns how many leaves, numbers, long numbers, strings and skeletons there are, the
    number of leaves of each conjunction, and the leaves of all conjunctions.
    """
    dnf = Expansion(
        np.zeros(3, np.int64), np.empty(LEAVES + 1, np.int64), np.empty(2 * CONJUNCTIONS + LEAVES, np.int64),
        np.empty(2 * CONJUNCTIONS + LEAVES, np.int64), np.empty(2 * REFERENCES, np.int64),
    )  # fmt: skip
    data = texts.data
    rest, operators = np.empty(2 * longest + 16, np.uint8), np.empty(DEPTH + LEAVES, np.uint8)
    sizes, refs = np.empty(texts.offsets.size + 64, np.int32), np.empty(out.code.size + 64, np.int32)
    conjunctions = references = leaf = number = long = string = known = 0
    out.string_start[0] = 0
    for row in range(texts.offsets.size - 1):
        at, end = texts.offsets[row], texts.offsets[row + 1]
        out.leaves[row] = out.conjunctions[row] = 0
        if end - at > longest:
            continue
        first_leaf, first_number, first_long, first_string = leaf, number, long, string
        leaf_number, leaf_string, length = number, string, 1
        size = size_before_comma = depth = tokens = waiting = nested = 0
        last = before = _START
        is_between = is_done = is_negated = is_mixed = False
        word = -1
        good = True
        dnf.used[0] = dnf.used[1] = dnf.used[2] = 0
        while good:
            kind = KIND[item(data, at)] if at < end else ODD
            if kind == SPACES:
                at += 1
                continue
            key, stop = np.uint64(0), at
            if kind in (LETTER, QUOTED):
                stop = after_name(data, at, end)
                if stop < 0:
                    good = False
                    break
                if kind == LETTER:
                    key = word_key(data, at, stop)
            symbol = item(data, at) if kind == SYMBOL else np.uint8(0)
            if key == AND and is_between and depth == 0:
                is_between = False
                word = -1
                rest[size] = SPACE
                size = _write_word(data, at, stop, True, rest, size + 1)
                before, last = last, _OPERATOR
                tokens += 1
                at = stop
                continue
            is_join = key in (AND, OR)
            closes = symbol == CLOSE and depth == 0
            if closes and tokens == 1 and last != _OPERATOR and waiting > 0 and operators[waiting - 1] == PARENTHESIS:
                waiting -= 1  # an operand in parentheses: an operator may follow, but no literal or parenthesis
                nested -= 1
                at = _after_spaces(data, at + 1, end)
                good = at == end or KIND[data[at]] == LETTER or (KIND[data[at]] == SYMBOL and data[at] != OPEN)
                continue
            if at == end or is_join or closes:
                if tokens > 0:  # a predicate ends
                    code = skeleton_number(rest, size, pool, known)
                    good = bool(code >= 0) and depth == 0 and not is_between and leaf - first_leaf < LEAVES
                    if not good:
                        break
                    known += code == known
                    out.code[leaf], out.length[leaf] = 2 * code + is_negated, length
                    out.first_number[leaf], out.first_string[leaf] = leaf_number, leaf_string
                    is_done = add_leaf(dnf, leaf)
                    leaf += 1
                    leaf_number, leaf_string, length, is_mixed = number, string, 1, False
                    size = tokens = 0
                    last = before = _START
                waiting, nested, is_negated = _without_negations(operators, waiting, nested, is_negated)
                precedence = JOIN_AND if key == AND else JOIN_OR
                waiting = join_waiting(dnf, operators, waiting, precedence) if is_done else -1
                is_open = waiting > 0 and operators[waiting - 1] == PARENTHESIS
                good = waiting >= 0 and (is_join or (is_open if closes else waiting == 0))
                if not good or at == end:
                    break
                if is_join:
                    operators[waiting] = precedence + (MEANS_AND if (key == AND) != is_negated else 0)
                    waiting += 1
                    is_done = False
                    at = stop
                else:
                    waiting, nested, is_negated = _without_negations(operators, waiting - 1, nested - 1, is_negated)
                    at += 1
                continue
            if is_done:  # only a join or a parenthesis may follow
                good = False
                break
            is_not = key == NOT or symbol == BANG
            if tokens == 0 and (is_not or symbol == OPEN):
                operators[waiting] = NEGATION if is_not else PARENTHESIS
                is_negated = is_negated != is_not
                waiting += 1
                nested += 1
                good = nested <= DEPTH and not (kind == SYMBOL and at + 1 < end and is_two(data[at], data[at + 1]))
                at = stop if key == NOT else at + 1
                continue
            sign = 0
            if symbol in (PLUS, MINUS) and (last == _START or last >= _COMMA_TOKEN):
                sign = -1 if symbol == MINUS else 1
                at = _after_spaces(data, at + 1, end)
                kind = KIND[item(data, at)] if at < end else ODD
                if kind not in (DIGIT, POINT_KIND) or (size > 0 and rest[size - 1] in (PLUS, MINUS)):
                    good = False  # no number behind the sign, or a sign behind another
                    break
            if word >= 0 and (kind == STRING or symbol == OPEN):
                _capitalise(rest, word, size)
            word = -1
            if tokens > 0:
                rest[size] = SPACE
                size += 1
            token = _OPERAND
            if kind == STRING:
                at, used = copy_string(data, at, end, out.string_bytes, out.string_start[string])
                good = at >= 0
                string += 1
                out.string_start[string] = used
                rest[size] = rest[size + 1] = QUOTE
                size += 2
                token = _STRING_TOKEN if last >= _COMMA_TOKEN else _OPERAND  # after the word TIMESTAMP
            elif kind in (DIGIT, POINT_KIND):
                out.long_begin[long] = at
                at, value, integer, good, is_long = read_number(data, at, end)
                out.long_end[long] = at
                out.long_number[long] = number + 1 if sign >= 0 else -number - 1
                out.numbers[number] = 0.0 - value if sign < 0 else value
                out.integers[number] = -integer if sign < 0 else integer
                number += 1
                long += is_long
                rest[size] = ZERO
                size += 1
                token = _NUMBER_TOKEN
            elif kind in (LETTER, QUOTED):
                is_keyword = is_reserved_word(key) or (kind == LETTER and _START < last < _COMMA_TOKEN)
                word = size if kind == LETTER and not is_keyword else -1
                size = _write_word(data, at, stop, is_keyword, rest, size)
                at = stop
                if key == BETWEEN:
                    good = depth == 0 and not is_between
                    is_between = True
                    token = _OPERATOR
                good &= key != NOT or depth == 0
            elif kind == SYMBOL:
                size_before_comma = size - 1 if symbol == COMMA else size_before_comma
                depth += int(symbol == OPEN) - int(symbol == CLOSE)
                good = nested + depth <= DEPTH
                at, size, token = _write_symbol(data, at, end, rest, size)
            else:
                good = False
            if last == _COMMA_TOKEN and not is_mixed and (depth == 1 or symbol == OPEN):
                if before == token and token in (_STRING_TOKEN, _NUMBER_TOKEN):
                    size = size_before_comma  # one more member of a list of strings or of numbers
                    length += 1
                    good &= length <= _MEMBERS
                    last = token
                    continue
                is_mixed = True  # from now on all members are written
                size = _write_members(rest, size_before_comma, size, before == _STRING_TOKEN, length - 1)
                length = 1
            tokens += 1
            before, last = last, token
        if good and dnf.used[1] <= CONJUNCTIONS:
            sizes, conjunctions = _appended(sizes, conjunctions, dnf.size, dnf.used[1])
            refs, references = _appended(refs, references, dnf.leaf, dnf.used[2])
            out.leaves[row], out.conjunctions[row] = leaf - first_leaf, dnf.used[1]
        else:
            leaf, number, long, string = first_leaf, first_number, first_long, first_string
    return leaf, number, long, string, known, sizes[:conjunctions], refs[:references]
