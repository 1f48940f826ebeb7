"""A forwarding prefix: the nodes of a tree that an event satisfies, as bytes that travel with the event.

The paper's Forwarding Prefix Tree gives each node by its place among its siblings. Here nodes have their numbers in
preorder, and the prefix is two sorted lists of them, coded as differences of seven bits a byte: the nodes at which
filters end, which is all that forwarding reads, and the others, which a router needs only if it has filters that are
younger than the tree. That is the same tree in two bytes a node, and a router reads it without a walk. Consecutive
numbers, such as those of a chain of nested ranges, are coded as how many they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from whimbrel.model.errors import WhimbrelError
from whimbrel.model.limits import Limit
from whimbrel.overlay.tree.tree_kernels import decode_steps, encode_steps

Version: TypeAlias = tuple[int, int]
"""The version of a tree: the epoch of its optimizer, and a counter within the epoch."""

EMPTY_VERSION: Version = (0, 0)
"""The tree without nodes, which every router has."""

LARGEST_NUMBER = (1 << 31) - 1
"""The largest number of a node or an epoch that a prefix, or a message of a broker, can hold."""

PREFIX_NODES = Limit("prefix nodes", 16_384, "nodes of a tree", "every router reads them for every event")
PREFIX_BYTES = Limit("prefix bytes", 65_536, "bytes", "a prefix travels with every event")

CHECK_BYTES = 4
_FORMAT = 2
_NONE = np.empty(0, np.int32)


class MalformedPrefix(WhimbrelError):
    """Bytes that are no prefix, or a prefix that does not fit its tree: what was `expected`, and what was `found`."""

    def __init__(self, expected: str, found: str) -> None:
        self.expected, self.found = expected, found
        super().__init__(f"Expected {expected}, but got {found} - in a prefix")


class Prefix:
    """The nodes of the tree `version` that an event satisfies, without the root, sorted. Immutable.

    `ends` are those at which filters end. `check` is the beginning of the digest of the tree: a tree of the same
    version that another optimizer made has another one. With a `limit`, nodes at that depth stand for all that is
    below them, and are among `ends`.
    """

    __slots__ = ("_count", "_others", "_tail", "check", "ends", "limit", "version")

    def __init__(
        self, version: Version, check: bytes, limit: int | None, ends: np.ndarray, others: np.ndarray = _NONE
    ) -> None:
        self.version = version
        self.check = check
        self.limit = limit
        self.ends = ends
        self._others: np.ndarray | None = others
        self._count = len(others)
        self._tail = b""

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self.ends) + self._count

    @property
    def others(self) -> np.ndarray:
        """The nodes at which no filter ends; MalformedPrefix if their bytes are wrong."""
        if self._others is None:
            self._others, end = _decode(self._tail, 0, self._count)
            if end != len(self._tail):
                raise MalformedPrefix(f"{self._count:,} nodes", "more bytes")
        return self._others

    @property
    def nodes(self) -> np.ndarray:
        """All nodes."""
        return np.sort(np.concatenate([self.ends, self.others]))

    def encode(self) -> bytes:
        """The prefix as bytes."""
        head = bytearray(prefix_head(self.version, self.check, self.limit))
        _write(head, (len(self.ends), self._count))
        out = np.empty(5 * len(self), np.uint8)
        size = encode_steps(self.others, encode_steps(self.ends, 0, out), out)
        return bytes(head) + out[:size].tobytes()

    @staticmethod
    def decode(data: bytes) -> Prefix:
        """The prefix that these bytes are; MalformedPrefix or LimitExceeded if they are none."""
        PREFIX_BYTES.check(len(data))
        if not data or data[0] != _FORMAT:
            raise MalformedPrefix(f"format {_FORMAT}", f"format {data[0]}" if data else "no bytes")
        at = 1 + CHECK_BYTES
        numbers: list[int] = []
        while len(numbers) < 5:
            if at < len(data) and data[at] < 128:  # nearly always
                numbers.append(data[at])
                at += 1
            else:
                number, at = _number(data, at)
                numbers.append(number)
        epoch, counter, limit, count, others = numbers
        PREFIX_NODES.check(count + others)
        ends, at = _decode(data, at, count)
        made = Prefix((epoch, counter), data[1 : 1 + CHECK_BYTES], limit - 1 if limit else None, ends)
        made._count, made._tail, made._others = others, data[at:], None
        return made


def prefix_head(version: Version, check: bytes, limit: int | None = None) -> bytes:
    """The bytes with which all prefixes of a version and a limit begin."""
    head = bytearray([_FORMAT]) + check
    _write(head, (*version, 0 if limit is None else limit + 1))
    return bytes(head)


def _write(out: bytearray, numbers: Iterable[int]) -> None:
    for number in numbers:
        rest = number
        while rest > 127:
            out.append(rest & 127 | 128)
            rest >>= 7
        out.append(rest)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """The number at a place of the bytes, and the place after it."""
    number = shift = 0
    while at < len(data) and shift <= 28:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            if number > LARGEST_NUMBER:
                break
            return number, at
    raise MalformedPrefix("numbers below 2^31", "others, or too few bytes")


def _decode(data: bytes, at: int, count: int) -> tuple[np.ndarray, int]:
    """Increasing numbers from a place of the bytes on, and the place after them."""
    if not count:
        return _NONE, at
    out = np.empty(count, np.int32)
    end = decode_steps(np.frombuffer(data, np.uint8), at, out)
    if end < 0:
        raise MalformedPrefix(f"{count:,} increasing numbers of nodes", "others, or too few bytes")
    return out, int(end)
