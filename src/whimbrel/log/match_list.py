"""Match lists as bytes: ascending int64 numbers, each stored as the difference to its predecessor.

The first number is zigzag-coded (the sign in the lowest bit), the others are differences. Each is stored as a varint:
seven bits per byte, lowest first, the high bit set on all bytes but the last. A thousand matches among a million
subscriptions take about two bytes each.

The log does not know what a number stands for. An owner with string ids numbers them and keeps the numbering elsewhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_SMALL = 24  # numbers up to which a loop is faster than a dozen array operations
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def encode(numbers: Iterable[int] | NDArray[np.int64]) -> bytes:
    """Encode a set of int64 numbers, given in any order.

    >>> encode([7, 300, 8])
    b'\\x0e\\x01\\xa4\\x02'
    """
    if isinstance(numbers, np.ndarray):
        if numbers.dtype.kind not in "iu" and numbers.size:
            raise TypeError(f"Expected int64 numbers, but got an array of {numbers.dtype}")
        return _encode_array(np.unique(numbers.astype(np.int64)))
    distinct = set(numbers)
    for number in distinct:
        if not isinstance(number, int) or isinstance(number, bool) or not _LOWEST <= number <= _HIGHEST:
            raise TypeError(f"Expected int64 numbers, but got {number!r}")
    ascending = sorted(distinct)
    if len(ascending) > _SMALL:
        return _encode_array(np.array(ascending, np.int64))
    coded = bytearray()
    previous = 0
    for place, number in enumerate(ascending):
        rest = number - previous if place else (number << 1 if number >= 0 else (-number << 1) - 1)
        previous = number
        while rest >= 0x80:
            coded.append(rest & 0x7F | 0x80)
            rest >>= 7
        coded.append(rest)
    return bytes(coded)


def decode(coded: bytes) -> list[int]:
    """The numbers of a list, ascending; ValueError if the bytes are not a list.

    >>> decode(encode([7, 300, 8]))
    [7, 8, 300]
    """
    if len(coded) > 2 * _SMALL:
        values: list[int] = decode_all([coded])[1].tolist()
        return values
    numbers: list[int] = []
    rest = shift = 0
    for byte in coded:
        rest |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(numbers[-1] + rest if numbers else (rest >> 1) ^ -(rest & 1))
            rest = shift = 0
        elif shift > 63:
            raise ValueError("Expected a match list, but got a number of more than ten bytes")
    if shift:
        raise ValueError("Expected a match list, but its last number is cut off")
    if numbers and not _LOWEST <= numbers[0] <= numbers[-1] <= _HIGHEST:
        raise ValueError(f"Expected int64 numbers, but got {numbers[-1]}")
    return numbers


def decode_all(lists: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Decode many lists at once. Returns offsets and numbers, as in an Arrow list array."""
    coded = np.frombuffer(b"".join(lists), np.uint8)
    ends = np.cumsum([0, *map(len, lists)])
    last = coded < 0x80
    stops = np.flatnonzero(last)
    counts = np.concatenate(([0], np.cumsum(last)))
    offsets = counts[ends]
    if np.any((ends > 0) & ~np.concatenate(([True], last))[ends]):
        raise ValueError("Expected match lists, but the last number of one is cut off")
    if stops.size == 0:
        return offsets, np.zeros(0, np.int64)
    starts = np.concatenate(([0], stops[:-1] + 1))
    lengths = stops - starts + 1
    if lengths.max() > 10:
        raise ValueError("Expected match lists, but got a number of more than ten bytes")
    shifts = (7 * (np.arange(coded.size) - np.repeat(starts, lengths))).astype(np.uint64)
    rests = np.add.reduceat((coded & 0x7F).astype(np.uint64) << shifts, starts)
    firsts = offsets[:-1][np.diff(offsets) > 0]
    signed = (rests[firsts] >> np.uint64(1)) ^ (np.uint64(0) - (rests[firsts] & np.uint64(1)))
    # A running sum over all lists, modulo 2^64, minus its value before each list.
    rests[firsts] = signed
    sums = np.cumsum(rests, dtype=np.uint64)
    before = sums[firsts] - signed
    sums -= np.repeat(before, np.diff(np.append(firsts, sums.size)))
    return offsets, sums.view(np.int64)


def encode_all(offsets: NDArray[np.int64], numbers: NDArray[np.int64]) -> list[bytes]:
    """Encode many lists at once: list n has numbers[offsets[n]:offsets[n + 1]], ascending, each number once.

    >>> encode_all(np.array([0, 3, 3]), np.array([7, 8, 300]))
    [b'\\x0e\\x01\\xa4\\x02', b'']
    """
    coded, ends = _varints(offsets, numbers)
    places = [0, *ends.tolist()]
    cuts = [places[number] for number in offsets.tolist()]
    return [coded[start:end] for start, end in itertools.pairwise(cuts)]


def _encode_array(ascending: NDArray[np.int64]) -> bytes:
    return _varints(np.array([0, ascending.size]), ascending)[0]


def _varints(offsets: NDArray[np.int64], numbers: NDArray[np.int64]) -> tuple[bytes, NDArray[np.int64]]:
    """The bytes of all lists, one after the other, and where each number ends."""
    if numbers.size == 0:
        return b"", np.zeros(0, np.int64)
    rests = np.empty(numbers.size, np.uint64)
    rests[1:] = np.diff(numbers.view(np.uint64))
    firsts = offsets[:-1][offsets[:-1] < offsets[1:]]
    signed = numbers[firsts]
    rests[firsts] = ((signed << 1) ^ (signed >> 63)).view(np.uint64)
    lengths = np.ones(numbers.size, np.int64)
    highest = int(rests.max())
    for bits in range(7, 64, 7):
        if highest >> bits == 0:
            break
        lengths += rests >= np.uint64(1 << bits)
    ends = np.cumsum(lengths)
    place = np.arange(int(ends[-1])) - np.repeat(ends - lengths, lengths)
    coded = (np.repeat(rests, lengths) >> (7 * place).astype(np.uint64)).astype(np.uint8) | np.uint8(0x80)
    coded[ends - 1] &= 0x7F
    return coded.tobytes(), ends
