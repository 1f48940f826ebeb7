"""Finding the IPv4 networks of texts that are addresses."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.bisection import lower_bound
from whimbrel.compiled.jit import helper, kernel


@helper
def _address(data, start, end):  # type: ignore[no-untyped-def]
    """The address that a text is, as `ipaddress` reads it: four numbers without leading zeros; -1 if it is none."""
    if end - start < 7 or end - start > 15:
        return np.int64(-1)
    address, number, digits, dots = np.int64(0), np.int64(0), 0, 0
    for at in range(start, end):
        byte = np.int64(data[at])
        if byte == 46:
            if digits == 0:
                return np.int64(-1)
            address = address << 8 | number
            number, digits, dots = np.int64(0), 0, dots + 1
        elif 48 <= byte <= 57:
            if digits > 0 and number == 0:
                return np.int64(-1)
            number, digits = number * 10 + byte - 48, digits + 1
            if number > 255:
                return np.int64(-1)
        else:
            return np.int64(-1)
    if digits == 0 or dots != 3:
        return np.int64(-1)
    return address << 8 | number


@kernel
def find_networks(
    lengths: np.ndarray, cuts: np.ndarray, keys: np.ndarray, ranks: np.ndarray, offsets: np.ndarray, data: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # pragma: no cover
    """The ranks of the networks that each text is an address of: where those of a text begin, and the ranks."""
    ends = np.zeros(offsets.shape[0], np.int64)
    found = np.empty(16, np.int32)
    n = 0
    for t in range(offsets.shape[0] - 1):
        address = _address(data, offsets[t], offsets[t + 1])
        if address >= 0:
            if n + 2 * lengths.size > found.size:
                larger = np.empty(2 * (found.size + lengths.size), np.int32)
                for i in range(n):
                    larger[i] = found[i]
                found = larger
            for at in range(lengths.size):
                free = 32 - lengths[at]
                key = lengths[at] << 32 | (address >> free << free)
                place = lower_bound(keys, cuts[at], cuts[at + 1], key)
                if place < cuts[at + 1] and keys[place] == key:
                    for column in range(2):
                        found[n] = ranks[place, column]
                        n += found[n] > 0
        ends[t + 1] = n
    return ends, found[:n]
