"""A forwarding prefix: the nodes of a tree that an event satisfies, as bytes that travel with the event.

The paper's Forwarding Prefix Tree gives each node by its place among its siblings. Here nodes have their numbers in
preorder, and the prefix is their sorted list, coded as differences of seven bits a byte. That is the same tree, in two
or three bytes a node, and a router reads the numbers without a walk.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from whimbrel.model.errors import WhimbrelError
from whimbrel.model.limits import Limit

Version: TypeAlias = tuple[int, int]
"""Of a tree: the epoch of its optimizer, and a counter within it."""

EMPTY_VERSION: Version = (0, 0)
"""The tree without nodes, which every router has."""

PREFIX_NODES = Limit("prefix nodes", 16_384, "nodes of a tree", "every router reads them for every event")
PREFIX_BYTES = Limit("prefix bytes", 65_536, "bytes", "a prefix travels with every event")

CHECK_BYTES = 4
_FORMAT = 1
_MAXIMUM = (1 << 31) - 1


class MalformedPrefix(WhimbrelError):
    """Bytes that are no prefix, or a prefix that does not fit its tree: what was `expected`, and what was `found`."""

    def __init__(self, expected: str, found: str) -> None:
        self.expected, self.found = expected, found
        super().__init__(f"Expected {expected}, but got {found} - in a prefix")


@dataclass(frozen=True, slots=True)
class Prefix:
    """The nodes of the tree `version` that an event satisfies, without the root, sorted.

    `check` is the beginning of the digest of that tree: a tree of the same version that another optimizer made has
    another one. With a `limit`, nodes at that depth stand for all that is below them.
    """

    version: Version
    check: bytes
    limit: int | None
    nodes: np.ndarray

    def encode(self) -> bytes:
        """The prefix as bytes."""
        steps = np.diff(self.nodes, prepend=0).tolist()
        out = bytearray([_FORMAT]) + self.check
        for number in (*self.version, 0 if self.limit is None else self.limit + 1, len(steps), *steps):
            rest = number
            while rest > 127:
                out.append(rest & 127 | 128)
                rest >>= 7
            out.append(rest)
        return bytes(out)

    @staticmethod
    def decode(data: bytes) -> Prefix:
        """The prefix that these bytes are; MalformedPrefix or LimitExceeded if they are none."""
        PREFIX_BYTES.check(len(data))
        if not data or data[0] != _FORMAT:
            raise MalformedPrefix(f"format {_FORMAT}", f"format {data[0]}" if data else "no bytes")
        numbers = _numbers(data[1 + CHECK_BYTES :])
        if len(numbers) < 4:
            raise MalformedPrefix("epoch, counter, limit and count", f"{len(numbers)} numbers")
        epoch, counter, limit, count = numbers[:4]
        if count != len(numbers) - 4:
            raise MalformedPrefix(f"{count:,} nodes", f"{len(numbers) - 4:,}")
        PREFIX_NODES.check(count)
        steps = np.array(numbers[4:], np.int64)
        nodes = np.cumsum(steps)
        if count and (steps.min() < 1 or nodes[-1] > _MAXIMUM):
            raise MalformedPrefix("increasing numbers of nodes", "others")
        return Prefix((epoch, counter), data[1 : 1 + CHECK_BYTES], limit - 1 if limit else None, nodes.astype(np.int32))


def _numbers(data: bytes) -> list[int]:
    """The numbers that the bytes are."""
    out: list[int] = []
    number = shift = 0
    for byte in data:
        number |= (byte & 127) << shift
        if byte > 127:
            shift += 7
            if shift > 28:
                raise MalformedPrefix("numbers below 2^31", "a longer one")
        else:
            if number > _MAXIMUM:
                raise MalformedPrefix("numbers below 2^31", "a larger one")
            out.append(number)
            number = shift = 0
    if shift:
        raise MalformedPrefix("a whole number at the end", "a part of one")
    return out
