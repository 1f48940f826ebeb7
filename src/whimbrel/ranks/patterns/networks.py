"""Networks as fragments: finds the networks that contain an address.

`ip IN CIDR '10.0.0.0/8'` looks for a fragment, as a suffix test does. The text of the fragment is the version, the
first address in hexadecimal digits and the prefix length of the network, each of a fixed width, so that all networks of
a segment are read from its constants at once. An address lies in one network of each prefix length: a search looks up
one network per length.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32Matrix, Int32s, Int64s
from whimbrel.compiled.helpers import lower_bound
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.compiled.views import tuple_of_arrays, view, words_of
from whimbrel.model.patterns import ADDRESS_LENGTH
from whimbrel.model.values import STRING

SOME_NETWORK, EVERY_NETWORK = "n", "N"
"""The last letter of a fragment that is a network: some value must lie in it, or every one."""


def fragment_of(network: str) -> str:
    """The fragment of a network in its canonical form, without the last letter: 4, 0a000000, 008 for 10.0.0.0/8."""
    address, length = network.split("/")
    if ":" in network:
        return f"6{socket.inet_pton(socket.AF_INET6, address).hex()}{length:0>3}"
    one, two, three, four = map(int, address.split("."))
    return f"4{one << 24 | two << 16 | three << 8 | four:08x}{length:0>3}"


class NetworkArrays(NamedTuple):
    """Networks, sorted by length and address."""

    lengths: Int64s  # [l]: the prefix lengths that occur
    cuts: Int64s  # [l + 1]: where the networks of each length begin
    keys: Int64s  # [n]: length and first address
    ranks: Int32Matrix  # [n, 2]: the ranks of a network, of the kinds `some` and `every`; 0 for none


NETWORKS = tuple_of_arrays(NetworkArrays, False)
_networks = view(NETWORKS)


class Networks4:
    """The IPv4 networks of a derived attribute."""

    def __init__(self, texts: np.ndarray, ranks: np.ndarray, is_every: np.ndarray) -> None:
        digits = texts.astype(np.int64)
        hexadecimal = np.where(digits > ord("9"), digits - ord("a") + 10, digits - ord("0"))
        address = hexadecimal[:, :8] @ (16 ** np.arange(7, -1, -1))
        length = hexadecimal[:, 8:] @ np.array([100, 10, 1])
        keys, place = np.unique(length << 32 | address, return_inverse=True)
        own = np.zeros((len(keys), 2), np.int32)
        own[place, is_every.astype(np.int64)] = ranks
        lengths = np.unique(length)
        cuts = np.searchsorted(keys, np.append(lengths, 64) << 32)
        self._arrays = NetworkArrays(lengths, cuts, keys, own)  # keeps the arrays alive to which the words point
        self.words = np.array(words_of(NETWORKS, self._arrays), np.int64)

    def find(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `PatternTrie.find`."""
        count = len(offsets) - 1
        ends = np.zeros(count + 1, np.int64)
        ranks = np.empty(2 * len(self._arrays.lengths) * count, np.int32)
        find_networks(self.words, offsets, data, ends, ranks)
        return ends, ranks[: ends[count]]


class Networks6:
    """The IPv6 networks of a derived attribute. Python looks at texts with a colon, and at no others."""

    def __init__(self, fragments: list[str], ranks: np.ndarray) -> None:
        self._ranks: dict[tuple[int, int], list[int]] = {}
        for fragment, rank in zip(fragments, ranks.tolist(), strict=True):
            self._ranks.setdefault((int(fragment[32:35]), int(fragment[:32], 16)), []).append(rank)
        self._lengths = sorted({length for length, _ in self._ranks})

    def find(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `PatternTrie.find`."""
        first, last = int(offsets[0]), int(offsets[-1])
        colons = np.flatnonzero(data[first:last] == ord(":")) + first
        counts = np.zeros(len(offsets), np.int64)
        found: list[int] = []
        for row in np.unique(np.searchsorted(offsets, colons, "right") - 1).tolist():
            ranks = self._ranks_of(bytes(data[offsets[row] : offsets[row + 1]]).decode())
            counts[row + 1] = len(ranks)
            found += ranks
        return np.cumsum(counts), np.array(found, np.int32)

    def _ranks_of(self, text: str) -> list[int]:
        if len(text) > ADDRESS_LENGTH:
            return []
        try:
            address = int(ipaddress.IPv6Address(text))
        except ValueError:
            return []
        masked = ((length, address >> (128 - length) << (128 - length)) for length in self._lengths)
        return [rank for key in masked for rank in self._ranks.get(key, ())]


def open_networks(arrays: Mapping[str, np.ndarray], attr: int) -> list[Networks4 | Networks6]:
    """The networks among the constants of a derived attribute."""
    first, last = arrays["string_start"][attr : attr + 2].tolist()
    starts, ends = arrays["string_offset"][first:last], arrays["string_offset"][first + 1 : last + 1] - 1
    data = arrays["string_bytes"]
    is_every = data[ends] == ord(EVERY_NETWORK)
    own = is_every | (data[ends] == ord(SOME_NETWORK))
    ranks = arrays["rank_base"][attr, STRING] + 2 * np.arange(last - first) + 1
    found: list[Networks4 | Networks6] = []
    four, six = (np.flatnonzero(own & (data[starts] == ord(version))) for version in "46")
    if len(four):
        texts = data[starts[four][:, None] + np.arange(1, 12)]
        found.append(Networks4(texts, ranks[four], is_every[four]))
    if len(six):
        texts = data[starts[six][:, None] + np.arange(1, 36)]
        found.append(Networks6([bytes(text).decode() for text in texts], ranks[six]))
    return found


@helper
def _address(data: Bytes, start: int, end: int) -> np.int64:
    """The IPv4 address of a text, as `ipaddress` reads it: four numbers without leading zeros; -1 if it is none."""
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


@inlined
def append_networks(networks: NetworkArrays, data: Bytes, start: int, end: int, ranks: Int32s, n: int) -> int:
    """Append the ranks of the networks that contain a text; return the new number of ranks, or -1 if out of space."""
    lengths, cuts, keys, own = networks
    address = _address(data, start, end)
    if address < 0:
        return n
    if n + 2 * lengths.size > ranks.size:
        return -1
    for at in range(lengths.size):
        free = 32 - lengths[at]
        key = lengths[at] << 32 | (address >> free << free)
        place = lower_bound(keys, cuts[at], cuts[at + 1], key)
        if place < cuts[at + 1] and keys[place] == key:
            for column in range(2):
                ranks[n] = own[place, column]
                n += ranks[n] > 0
    return n


@kernel
def find_networks(words: Int64s, offsets: Int64s, data: Bytes, ends: Int64s, ranks: Int32s) -> None:
    """Find the networks of texts that are IPv4 addresses; those of text t end at ends[t + 1]. `ranks` must fit all."""
    networks = _networks(words, 0)
    n = 0
    for t in range(offsets.shape[0] - 1):
        n = append_networks(networks, data, offsets[t], offsets[t + 1], ranks, n)
        ends[t + 1] = n
