"""The loops over the bytes of many texts: tokens, the structure of AND, OR, NOT and parentheses, and literals.

A predicate is cut out as a skeleton: its tokens with one space between them, reserved words in capital letters, '' for
a string and 0 for a number. Each different skeleton is later parsed once, by the parser of the language, which alone
knows what predicates mean. A list of strings or of numbers is written as a list of one, and its length is kept, so that
lists of all lengths are one skeleton. NOT is pushed down to the predicates and AND is distributed over OR, so that a
text becomes an OR of conjunctions of predicates and negated predicates.

A text with anything that the loops do not know (letters outside of ASCII in bare names, numbers beyond 2^53, more
conjunctions than some hundred, bad syntax) is left to the parser.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.helpers import load_word, shared
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.model.limits import IN_MEMBERS

DOUBLE_QUOTE, QUOTE, PLUS, MINUS, POINT, ZERO, NINE = b"\"'+-.09"
OPEN, CLOSE, COMMA, LESS, EQUAL, GREATER, BANG, BACKTICK, UNDERSCORE, SPACE, SMALL_E = b"(),<=>!`_ e"
_ODD, _SPACE, _STRING, _SYMBOL, _QUOTED, _POINT, _LETTER, _DIGIT = range(8)
_KIND = np.zeros(256, np.uint8)
"""The kind of each byte; the kinds from `_LETTER` on make words."""
_KIND[[9, 10, 11, 12, 13, 28, 29, 30, 31, SPACE]] = _SPACE
_KIND[QUOTE], _KIND[POINT], _KIND[ZERO : NINE + 1] = _STRING, _POINT, _DIGIT
_KIND[65:91] = _KIND[97:123] = _KIND[UNDERSCORE] = _LETTER
_KIND[[DOUBLE_QUOTE, BACKTICK]] = _QUOTED
_KIND[[OPEN, CLOSE, COMMA, LESS, EQUAL, GREATER, BANG, PLUS, MINUS]] = _SYMBOL


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "big"))


_AND, _OR, _NOT, _BETWEEN = _word(b"AND"), _word(b"OR"), _word(b"NOT"), _word(b"BETWEEN")
_IN, _IS, _LIKE, _NULL, _TRUE, _FALSE = map(_word, (b"IN", b"IS", b"LIKE", b"NULL", b"TRUE", b"FALSE"))
_CAPITAL = np.uint64(0xDF)
"""What makes a letter of ASCII a capital one."""

_START, _OPERAND, _STRING_TOKEN, _NUMBER_TOKEN, _COMMA_TOKEN, _OPERATOR = range(6)
"""What the last token of a predicate was. A sign before a number belongs to it after `_START` and from `_COMMA` on."""
_JOIN_OR, _JOIN_AND, _NEGATION, _PARENTHESIS = range(4)
"""What waits on the stack of operators: a join by its precedence in the text, with 4 added if it means AND."""
_MEANS_AND = 4

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HALF, _BYTE = np.uint64(32), np.uint64(8)
_EXACT = 900_719_925_474_098
"""An integer up to this one stays below 2^53 with one digit more."""
_TENS = 10.0 ** np.arange(23)
"""The powers of ten that are exact: one multiplication or division by one rounds once, as reading a number should."""
_DIGITS = 15
"""Digits before the point of a number; such integers are exact as binary64."""
_MOST_CHARACTERS = 64
"""Characters of a number that is read."""

DEPTH = 32
"""Parentheses and NOTs around a predicate, at most."""
LEAVES = 1_024
"""Predicates of a text, at most."""
CONJUNCTIONS = 256
"""Conjunctions of a text, at most."""
REFERENCES = 8_192
"""Predicates of all conjunctions of a text, at most."""
_MEMBERS = IN_MEMBERS.value


class TextBytes(NamedTuple):
    """Many texts: text i is `data[offsets[i]:offsets[i + 1]]`, in UTF-8."""

    offsets: np.ndarray
    data: np.ndarray


class SkeletonPool(NamedTuple):
    """The different skeletons that were met: skeleton c is `data[starts[c]:starts[c + 1]]`.

    `table` finds them by hash, with open addressing: an entry is c + 1, and 0 is empty.
    """

    data: np.ndarray
    starts: np.ndarray
    table: np.ndarray


class ScannedTexts(NamedTuple):
    """What the texts were cut into, text after text. Leaves are the predicates, in the order of the text.

    `leaves` and `conjunctions` have how many of each a text has: 0 if it is left to the parser. A leaf has `code`,
    twice the number of its skeleton, and one more if it is negated; its first number and string; and the length of its
    list, or 1. `long_number` has the numbers that must be read again, from the bytes `long_begin` to `long_end`: one
    more than the place in `numbers`, negative if there is a minus. String i is
    `string_bytes[string_start[i]:string_start[i + 1]]`.
    """

    leaves: np.ndarray
    conjunctions: np.ndarray
    code: np.ndarray
    first_number: np.ndarray
    first_string: np.ndarray
    length: np.ndarray
    numbers: np.ndarray
    long_number: np.ndarray
    long_begin: np.ndarray
    long_end: np.ndarray
    string_start: np.ndarray
    string_bytes: np.ndarray


class _Expansion(NamedTuple):
    """The OR of conjunctions of a text while it is read.

    `used` counts alternatives (ORs of conjunctions that wait for a join), conjunctions and references.
    """

    used: np.ndarray
    first: np.ndarray  # of each alternative: its first conjunction
    start: np.ndarray  # of each conjunction: its first reference
    size: np.ndarray
    leaf: np.ndarray  # of each reference


@helper
def _is_digit(c: int) -> bool:  # pragma: no cover
    return ZERO <= c <= NINE


@helper
def _is_two(one: int, two: int) -> bool:  # pragma: no cover
    """Whether two signs are one operator."""
    return (two == EQUAL and one in (LESS, GREATER, BANG, EQUAL)) or (one == LESS and two == GREATER)


@helper
def _hash(data: np.ndarray, start: int, end: int) -> np.int64:  # pragma: no cover
    """The hash of some bytes: eight at a time, then the rest."""
    h = np.uint64(end - start)
    while start + 8 <= end:
        h = (h ^ load_word(data, start)) * _FACTOR
        h ^= h >> _HALF
        start += 8
    rest = np.uint64(0)
    while start < end:
        rest = (rest << _BYTE) | np.uint64(data[start])
        start += 1
    h = (h ^ rest) * _FACTOR
    return np.int64((h ^ (h >> _HALF)) & np.uint64(0x7FFFFFFF))


@inlined
def _code(rest: np.ndarray, size: int, pool: SkeletonPool, known: int) -> np.int64:  # pragma: no cover
    """The number of a skeleton in the pool, which becomes the next number if it is new; -1 if the pool is full."""
    mask = pool.table.size - 1
    slot = _hash(rest, 0, size) & mask
    while pool.table[slot] != 0:
        code = pool.table[slot] - 1
        start = pool.starts[code]
        if pool.starts[code + 1] - start == size and shared(pool.data, start, rest, 0, size) == size:
            return np.int64(code)
        slot = (slot + 1) & mask
    start = pool.starts[known]
    if known + 1 >= pool.starts.size or start + size > pool.data.size:
        return np.int64(-1)
    for i in range(size):
        pool.data[start + i] = rest[i]
    pool.starts[known + 1] = start + size
    pool.table[slot] = known + 1
    return np.int64(known)


@helper
def _number(data: np.ndarray, at: int, end: int) -> tuple[int, float, bool, bool]:  # pragma: no cover
    """Read a number that starts with a digit or a point. Return its end, its value, whether it is plain, and long.

    A plain number is below 2^53. A long one has more digits or a larger exponent than this function can read exactly:
    its value must be read again.
    """
    start = at
    value = np.int64(0)
    digits = decimals = dropped = 0
    while at < end and _is_digit(data[at]) and digits <= _DIGITS:
        value = value * 10 + np.int64(data[at] - ZERO)
        digits += 1
        at += 1
    plain = digits <= _DIGITS
    if at < end and data[at] == POINT:
        at += 1
        point = at
        while at < end and _is_digit(data[at]):
            if value <= _EXACT and dropped == 0:
                value = value * 10 + np.int64(data[at] - ZERO)
                decimals += 1
            else:
                dropped += 1
            at += 1
        plain &= digits > 0 or at > point
    exponent = np.int64(0)
    if at < end and data[at] | 32 == SMALL_E:
        at += 1
        is_negative = at < end and data[at] == MINUS
        at += at < end and data[at] in (PLUS, MINUS)
        first = at
        while at < end and _is_digit(data[at]) and at < first + 3:
            exponent = exponent * 10 + np.int64(data[at] - ZERO)
            at += 1
        plain &= at > first
        exponent = -exponent if is_negative else exponent
    plain &= bool(digits + exponent <= _DIGITS) and at <= start + _MOST_CHARACTERS
    plain &= at == end or (_KIND[data[at]] < _POINT and data[at] < 128)
    tens = exponent - decimals
    if dropped > 0 or tens <= -_TENS.size or tens >= _TENS.size:
        return at, 0.0, plain, True
    return at, value / _TENS[-tens] if tens < 0 else value * _TENS[tens], plain, False


@inlined
def _copy_string(
    data: np.ndarray, at: int, end: int, out: np.ndarray, used: int
) -> tuple[int, int]:  # pragma: no cover
    """Copy the string that begins here, with one quote for two. Return where it ends, or -1, and the bytes used."""
    at += 1
    while at < end:
        if data[at] == QUOTE:
            if at + 1 >= end or data[at + 1] != QUOTE:
                return at + 1, used
            at += 1
        out[used] = data[at]
        used += 1
        at += 1
    return -1, used


@helper
def _after_name(data: np.ndarray, at: int, end: int) -> int:  # pragma: no cover
    """The end of a name, quoted or bare, with the parts behind its dots; -1 if it is none that the loops know."""
    while True:
        if _KIND[data[at]] == _QUOTED:
            quote = data[at]
            at += 1
            while at < end and (data[at] != quote or (at + 1 < end and data[at + 1] == quote)):
                at += 2 if data[at] == quote else 1
            if at >= end:
                return -1
            at += 1
        else:
            while at < end and _KIND[data[at]] >= _LETTER:
                at += 1
        if at == end or data[at] != POINT:
            return at
        at += 1
        if at == end or _KIND[data[at]] not in (_LETTER, _DIGIT, _QUOTED):
            return -1


@helper
def _key(data: np.ndarray, start: int, end: int) -> np.uint64:  # pragma: no cover
    """The letters of a short word as capitals in one integer; 0 for a long word."""
    key = np.uint64(0)
    if end - start <= 7:
        for at in range(start, end):
            key = (key << _BYTE) | (np.uint64(data[at]) & _CAPITAL)
    return key


@helper
def _is_reserved(key: np.uint64) -> bool:  # pragma: no cover
    """Whether a word that is no join may be written in capitals: it is no name, wherever it stands."""
    return key in (_NOT, _BETWEEN, _IN, _IS, _LIKE, _NULL, _TRUE, _FALSE)


@inlined
def _and(dnf: _Expansion) -> bool:  # pragma: no cover
    """Join the last two alternatives by AND; False if there are too many conjunctions."""
    count, first, start, size, leaf = dnf.used, dnf.first, dnf.start, dnf.size, dnf.leaf
    one, two, conjunctions, references = first[count[0] - 2], first[count[0] - 1], count[1], count[2]
    count[0] -= 1
    if conjunctions - one == 2 and two - one == 1:
        size[one] += size[two]
        count[1] -= 1
        return True
    made, used = conjunctions, references
    for i in range(one, two):
        for j in range(two, conjunctions):
            if made >= start.size or used + size[i] + size[j] > leaf.size:
                return False
            start[made], size[made] = used, size[i] + size[j]
            for k in range(size[i]):
                leaf[used + k] = leaf[start[i] + k]
            used += size[i]
            for k in range(size[j]):
                leaf[used + k] = leaf[start[j] + k]
            used += size[j]
            made += 1
    down = references - start[one]
    for i in range(conjunctions, made):
        start[one + i - conjunctions], size[one + i - conjunctions] = start[i] - down, size[i]
    for k in range(references, used):
        leaf[k - down] = leaf[k]
    count[1], count[2] = one + made - conjunctions, used - down
    return bool(count[1] <= CONJUNCTIONS and count[2] <= REFERENCES)


@inlined
def _join(dnf: _Expansion, operators: np.ndarray, waiting: int, precedence: int) -> int:  # pragma: no cover
    """Do the joins that bind at least as tight. Return how many operators still wait; -1: too many conjunctions."""
    while waiting > 0 and precedence <= operators[waiting - 1] & 3 <= _JOIN_AND:
        waiting -= 1
        if operators[waiting] >= _MEANS_AND:
            if not _and(dnf):
                return -1
        else:  # conjunctions of the last two alternatives are neighbours
            dnf.used[0] -= 1
    return waiting


@kernel
def scan_texts(
    texts: TextBytes, longest: int, pool: SkeletonPool, out: ScannedTexts
) -> tuple[int, int, int, int, int, np.ndarray, np.ndarray]:  # pragma: no cover
    """Scan every text of at most `longest` bytes.

    Writes to `pool` and `out`. Returns how many leaves, numbers, long numbers, strings and skeletons there are, the
    number of leaves of each conjunction, and the leaves of all conjunctions.
    """
    data = texts.data
    known = leaf = number = long = string = 0
    rest = np.empty(2 * longest + 16, np.uint8)
    operators = np.empty(DEPTH + LEAVES, np.uint8)
    dnf = _Expansion(
        np.zeros(3, np.int64), np.empty(LEAVES + 1, np.int64), np.empty(2 * CONJUNCTIONS + LEAVES, np.int64),
        np.empty(2 * CONJUNCTIONS + LEAVES, np.int64), np.empty(2 * REFERENCES, np.int64),
    )  # fmt: skip
    sizes, refs = np.empty(texts.offsets.size + 64, np.int32), np.empty(out.code.size + 64, np.int32)
    conjunctions = references = 0
    out.string_start[0] = 0
    for row in range(texts.offsets.size - 1):
        at, end = texts.offsets[row], texts.offsets[row + 1]
        good = end - at <= longest
        first_leaf, first_number, first_long, first_string = leaf, number, long, string
        leaf_number, leaf_string, length = number, string, 1
        size = depth = tokens = waiting = nested = 0
        size_before_comma = 0
        last = before = _START
        is_between = is_done = is_negated = False
        dnf.used[:] = 0
        while good:
            kind = _KIND[data[at]] if at < end else _ODD
            if kind == _SPACE:
                at += 1
                continue
            key = np.uint64(0)
            stop = at
            if kind in (_LETTER, _QUOTED):
                stop = _after_name(data, at, end)
                if stop < 0:
                    good = False
                    break
                if kind == _LETTER:
                    key = _key(data, at, stop)
            is_join = key in (_AND, _OR)
            if is_join and is_between and key == _AND and depth == 0:
                is_join = is_between = False
                rest[size], rest[size + 1], rest[size + 2], rest[size + 3] = SPACE, 65, 78, 68
                size += 4
                before, last = last, _OPERATOR
                tokens += 1
                at = stop
                continue
            closes = kind == _SYMBOL and data[at] == CLOSE and depth == 0
            if closes and tokens == 1 and last != _OPERATOR and waiting > 0 and operators[waiting - 1] == _PARENTHESIS:
                waiting -= 1  # an operand in parentheses, which an operator may follow, but no literal or parenthesis
                nested -= 1
                at += 1
                while at < end and _KIND[data[at]] == _SPACE:
                    at += 1
                good = at == end or _KIND[data[at]] == _LETTER or (_KIND[data[at]] == _SYMBOL and data[at] != OPEN)
                continue
            if at == end or is_join or closes:
                if tokens > 0:  # a predicate ends
                    code = _code(rest, size, pool, known)
                    good = code >= 0 and depth == 0 and not is_between and leaf - first_leaf < LEAVES
                    if not good:
                        break
                    known += code == known
                    out.code[leaf] = 2 * code + is_negated
                    out.first_number[leaf], out.first_string[leaf] = leaf_number, leaf_string
                    out.length[leaf] = length
                    made, used = dnf.used[1], dnf.used[2]
                    dnf.first[dnf.used[0]], dnf.start[made], dnf.size[made], dnf.leaf[used] = made, used, 1, leaf
                    dnf.used[:] += 1
                    good = made + 1 < CONJUNCTIONS + LEAVES and used + 1 < REFERENCES
                    leaf += 1
                    leaf_number, leaf_string, length = number, string, 1
                    size = tokens = 0
                    last = before = _START
                    is_done = True
                if not good or not is_done:
                    good = False
                    break
                while waiting > 0 and operators[waiting - 1] == _NEGATION:
                    waiting -= 1
                    nested -= 1
                    is_negated = not is_negated
                precedence = _JOIN_AND if key == _AND else _JOIN_OR
                waiting = _join(dnf, operators, waiting, precedence)
                if waiting < 0:
                    good = False
                    break
                if is_join:
                    operators[waiting] = precedence + (_MEANS_AND if (key == _AND) != is_negated else 0)
                    waiting += 1
                    is_done = False
                    at = stop
                elif closes:
                    if waiting == 0 or operators[waiting - 1] != _PARENTHESIS:
                        good = False
                        break
                    waiting -= 1
                    nested -= 1
                    at += 1
                    while waiting > 0 and operators[waiting - 1] == _NEGATION:
                        waiting -= 1
                        nested -= 1
                        is_negated = not is_negated
                else:
                    good = waiting == 0
                    break
                continue
            if is_done:  # nothing but a join or a parenthesis may follow
                good = False
                break
            is_not = key == _NOT or (kind == _SYMBOL and data[at] == BANG)
            if tokens == 0 and (is_not or (kind == _SYMBOL and data[at] == OPEN)):
                operators[waiting] = _NEGATION if is_not else _PARENTHESIS
                if is_not:
                    is_negated = not is_negated
                waiting += 1
                nested += 1
                good = nested <= DEPTH and not (kind == _SYMBOL and at + 1 < end and _is_two(data[at], data[at + 1]))
                at = stop if key == _NOT else at + 1
                continue
            token = _OPERAND
            sign = 0
            begin = at
            if kind == _SYMBOL and data[at] in (PLUS, MINUS) and (last == _START or last >= _COMMA_TOKEN):
                sign = -1 if data[at] == MINUS else 1
                at += 1
                while at < end and _KIND[data[at]] == _SPACE:
                    at += 1
                kind = _KIND[data[at]] if at < end else _ODD
                if kind not in (_DIGIT, _POINT):
                    good = False
                    break
            if tokens > 0:
                rest[size] = SPACE
                size += 1
            if kind == _STRING:
                at, used = _copy_string(data, at, end, out.string_bytes, out.string_start[string])
                if at < 0:
                    good = False
                    break
                string += 1
                out.string_start[string] = used
                rest[size] = rest[size + 1] = QUOTE
                size += 2
                token = _STRING_TOKEN if last >= _COMMA_TOKEN else _OPERAND  # after the word TIMESTAMP
            elif kind in (_DIGIT, _POINT):
                out.long_begin[long] = at
                at, value, is_plain, is_long = _number(data, at, end)
                if not is_plain:
                    good = False
                    break
                out.long_end[long] = at
                out.long_number[long] = number + 1 if sign >= 0 else -number - 1
                long += is_long
                out.numbers[number] = 0.0 - value if sign < 0 else value
                number += 1
                rest[size] = ZERO
                size += 1
                token = _NUMBER_TOKEN
            elif kind in (_LETTER, _QUOTED):
                is_reserved = _is_reserved(key)
                for place in range(begin, stop):
                    rest[size] = data[place] & 0xDF if is_reserved else data[place]
                    size += 1
                at = stop
                if key == _BETWEEN:
                    good = depth == 0 and not is_between
                    is_between = True
                    token = _OPERATOR
                good &= key != _NOT or depth == 0
            elif kind == _SYMBOL:
                symbol = data[at]
                rest[size] = symbol
                size += 1
                at += 1
                token = _COMMA_TOKEN if symbol == COMMA else _OPERAND if symbol == CLOSE else _OPERATOR
                if symbol == OPEN:
                    depth += 1
                    good = nested + depth <= DEPTH
                elif symbol == CLOSE:
                    depth -= 1
                elif symbol == COMMA:
                    size_before_comma = size - 2
                elif at < end and _is_two(symbol, data[at]):
                    rest[size] = data[at]
                    size += 1
                    at += 1
            else:
                good = False
                break
            if depth == 1 and last == _COMMA_TOKEN and before == token and token in (_STRING_TOKEN, _NUMBER_TOKEN):
                size = size_before_comma  # one more member of a list of strings or of numbers
                length += 1
                good &= length <= _MEMBERS
                last = token
                continue
            tokens += 1
            before, last = last, token
        good &= dnf.used[1] <= CONJUNCTIONS
        if good and references + dnf.used[2] > refs.size:
            more = np.empty(2 * (references + dnf.used[2]), np.int32)
            more[:references] = refs[:references]
            refs = more
        if good and conjunctions + dnf.used[1] > sizes.size:
            more = np.empty(2 * (conjunctions + dnf.used[1]), np.int32)
            more[:conjunctions] = sizes[:conjunctions]
            sizes = more
        if good:
            for i in range(dnf.used[1]):
                sizes[conjunctions] = dnf.size[i]
                conjunctions += 1
            for i in range(dnf.used[2]):
                refs[references] = dnf.leaf[i]
                references += 1
            out.leaves[row], out.conjunctions[row] = leaf - first_leaf, dnf.used[1]
        else:
            out.leaves[row] = out.conjunctions[row] = 0
            leaf, number, long, string = first_leaf, first_number, first_long, first_string
    return leaf, number, long, string, known, sizes[:conjunctions], refs[:references]


@kernel
def number_strings(
    start: np.ndarray, data: np.ndarray, table: np.ndarray, codes: np.ndarray, first: np.ndarray
) -> int:  # pragma: no cover
    """Number strings, equal ones alike, and return how many different ones there are.

    Writes the number of each string to `codes`, and the first string of each number to `first`. The table is all zeros
    and at least twice as large as the number of strings.
    """
    mask = table.size - 1
    known = 0
    for i in range(start.size - 1):
        begin, size = start[i], start[i + 1] - start[i]
        slot = _hash(data, begin, begin + size) & mask
        code = np.int64(-1)
        while table[slot] != 0:
            other = first[table[slot] - 1]
            if start[other + 1] - start[other] == size and shared(data, start[other], data, begin, size) == size:
                code = np.int64(table[slot] - 1)
                break
            slot = (slot + 1) & mask
        if code < 0:
            first[known] = i
            code = np.int64(known)
            known += 1
            table[slot] = known
        codes[i] = code
    return known
