"""Converts decimal digits to the nearest binary64, ties to even.

Few digits and a small power of ten take one multiplication or division of two exact binary64 (W. Clinger, How to read
floating point numbers accurately, 1990). Otherwise the digits are multiplied by the first 128 bits of a power of five,
which nearly always decides (D. Lemire, Number parsing at a gigabyte per second, 2021). Python reads the rest.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.intrinsics import float_of_bits, high_product, leading_zeros
from whimbrel.compiled.jit import helper, inlined

LEFT = -1.0
"""In place of a float: Python must read it."""

_EXACT = np.uint64(1 << 53)
_POWERS = 10.0 ** np.arange(23)
"""The powers of ten that binary64 holds exactly."""
_LEAST, _MOST = -342, 308
"""The least and the greatest power of ten with which a word of digits may be a finite binary64 above 0."""
_FRACTION = 52
"""Bits of a binary64 after the first one."""
_BIAS = 1_023
_ZERO, _ONE, _THREE, _ALL = np.uint64(0), np.uint64(1), np.uint64(3), np.uint64((1 << 64) - 1)
_BELOW = np.uint64(64 - _FRACTION - 3)
"""Bits of a product that do not decide, unless all of them are 1."""
_CARRY = np.uint64(1 << _FRACTION + 1)


def _first_bits(power: int) -> int:
    """The first 128 bits of five to a power: rounded down, or up where the power is negative."""
    whole: int = 5 ** abs(power)
    if power < 0:
        size = whole.bit_length()
        whole = (1 << (size + 127 if power >= -27 else 2 * size + 128)) // whole + 1
    shift = whole.bit_length() - 128
    return whole >> shift if shift >= 0 else whole << -shift


_FIVES = np.array(
    [(bits >> 64, bits & ((1 << 64) - 1)) for bits in map(_first_bits, range(_LEAST, _MOST + 1))], np.uint64
)


@inlined
def nearest_float(digits: np.uint64, power: int) -> float:
    """The binary64 that is nearest to digits x 10^power, or LEFT."""
    if digits <= _EXACT and -22 <= power <= 22:
        number = float(np.int64(digits))
        return float(number / _POWERS[-power] if power < 0 else number * _POWERS[power])
    return _by_product(digits, power)


@helper
def _by_product(digits: np.uint64, power: int) -> float:
    if digits == _ZERO:
        return 0.0
    if power < _LEAST or power > _MOST:
        return LEFT
    shift = leading_zeros(digits)
    digits <<= shift
    high, low = high_product(digits, _FIVES[power - _LEAST, 0]), digits * _FIVES[power - _LEAST, 0]
    undecided = (_ONE << _BELOW) - _ONE
    if high & undecided == undecided:
        more = high_product(digits, _FIVES[power - _LEAST, 1])
        low += more
        high += np.uint64(low < more)
        if low == _ALL and not -27 <= power <= 55:
            return LEFT
    top = high >> np.uint64(63)
    exponent = ((217_706 * power) >> 16) + 63 + np.int64(top) - np.int64(shift) + _BIAS
    if exponent <= 0:
        return LEFT  # below the normal numbers
    fraction = high >> (top + _BELOW)
    if low <= _ONE and -4 <= power <= 23 and fraction & _THREE == _ONE and fraction << (top + _BELOW) == high:
        fraction &= ~_ONE  # exactly between two: take the even one
    fraction = (fraction + (fraction & _ONE)) >> _ONE
    if fraction == _CARRY:
        fraction >>= _ONE
        exponent += 1
    if exponent >= 2 * _BIAS + 1:
        return LEFT
    hidden = _ONE << np.uint64(_FRACTION)
    number: float = float_of_bits((fraction & ~hidden) | np.uint64(exponent) << np.uint64(_FRACTION))
    return number
