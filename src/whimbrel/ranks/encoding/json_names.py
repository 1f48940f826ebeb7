"""The names that a JSON reader looks for: each attribute that filters mention, in all ways that keys may spell it.

`a.b.c` is one attribute whether an object has it as `{"a": {"b": {"c": 1}}}`, as `{"a.b": {"c": 1}}` or as
`{"a.b.c": 1}`. So every name, and every name above one (`a` and `a.b`), is a target; and from each target above it a
key leads to it: `b.c` leads from `a` to `a.b.c`. The keys of all targets are one hash table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.helpers import load_word, shared
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.compiled.views import read_only, tuple_of_arrays
from whimbrel.ranks.encoding.json_scan_kernels import BAD, first_byte, quotes_in, scan_string, signed

ABOVE, TIME, PYTHON_NUMBERS, PYTHON_TEXTS, NOTED = 1, 2, 4, 8, 16
"""Flags of a target: other targets lie below it; its strings are timestamps; Python must read its numbers; Python must
read its strings; where its values are is noted, because patterns look at them."""

SHORT = 7
"""Bytes of a key that fits a word with the quote after it."""
MOST_DOTS = 16
"""Dots of a name, at most: there are as many keys as pairs of dots."""

HASH, WHERE, START, LENGTH = 0, 1, 2, 3
"""Columns of the hash table. WHERE is 0 in a free slot, else `where` of the key."""

_NODE_FACTOR = np.uint64(0x9E37_79B9_7F4A_7C15)
_FACTOR = np.uint64(0xD6E8_FEB8_6659_FD93)
_HALF = np.uint64(32)
_LAST_BYTE = np.uint64(56)


class JsonNames(NamedTuple):
    """The targets, of which 0 is the event itself, and the hash table of their keys."""

    attr: np.ndarray  # int32[t]: the attribute of each target, -1 if no filter mentions it
    flags: np.ndarray  # uint8[t]
    slots: np.ndarray  # int64[s, 4]
    keys: np.ndarray  # uint8: the bytes of all keys


NAMES = tuple_of_arrays(
    JsonNames,
    False,
    {
        "flags": ("uint8", 1),
        "slots": ("int64", 2),
        "keys": ("uint8", 1),
    },
)


@helper
def mixed(hash: np.uint64) -> np.uint64:  # pragma: no cover
    """A hash with its bits mixed. No two words become the same."""
    hash *= _FACTOR
    return hash ^ (hash >> _HALF)


@helper
def short_hash(word: np.uint64, node: int) -> np.uint64:  # pragma: no cover
    """The hash of a key of at most SHORT bytes below a target; other keys below the same target have other hashes.

    The word has the bytes of the key, then zeros, and in the last byte their number.
    """
    return mixed(word ^ (np.uint64(node) * _NODE_FACTOR))


@helper
def short_word(word: np.uint64, length: int) -> np.uint64:  # pragma: no cover
    """The word of a key, of eight bytes that begin with it."""
    return word & ((np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)) | (np.uint64(length) << _LAST_BYTE)


@helper
def long_hash(data: np.ndarray, at: int, length: int, node: int) -> np.uint64:  # pragma: no cover
    """The hash of a longer key below a target."""
    hash = np.uint64(node) * _NODE_FACTOR + np.uint64(length)
    while length > 0:
        if at + 8 <= data.size:
            word = load_word(data, at)
            if length < 8:
                word &= (np.uint64(1) << np.uint64(8 * length)) - np.uint64(1)
        else:
            word = np.uint64(0)
            for i in range(min(length, 8)):
                word |= np.uint64(data[at + i]) << np.uint64(8 * i)
        hash = mixed(hash ^ word)
        at += 8
        length -= 8
    return hash


@helper
def where(node: int, target: int, length: int) -> int:  # pragma: no cover
    """What a slot holds of a key: the target it is below, the one that it leads to, and whether it is long."""
    return (node << 32) | (target << 1) | int(length > SHORT)


@kernel
def _fill_slots(
    keys: np.ndarray, cuts: np.ndarray, nodes: np.ndarray, targets: np.ndarray, slots: np.ndarray
) -> None:  # pragma: no cover
    mask = slots.shape[0] - 1
    for k in range(nodes.size):
        at, length = cuts[k], cuts[k + 1] - cuts[k]
        if length > SHORT:
            hash = long_hash(keys, at, length, nodes[k])
        else:
            word = np.uint64(length) << _LAST_BYTE
            for i in range(length):
                word |= np.uint64(keys[at + i]) << np.uint64(8 * i)
            hash = short_hash(word, nodes[k])
        slot = np.int64(hash) & mask
        while slots[slot, WHERE] != 0:
            slot = (slot + 1) & mask
        slots[slot, HASH], slots[slot, WHERE] = np.int64(hash), where(nodes[k], targets[k], length)
        slots[slot, START], slots[slot, LENGTH] = at, length


@inlined
def _find_short(slots: np.ndarray, word: np.uint64, node: int) -> int:  # pragma: no cover
    """The target that a short key leads to, or -1."""
    hash = signed(short_hash(word, node))
    mask = slots.shape[0] - 1
    slot = hash & mask
    while slots[slot, WHERE] != 0:
        found = slots[slot, WHERE]
        if slots[slot, HASH] == hash and found >> 32 == node and found & 1 == 0:
            target: int = (found & 0xFFFF_FFFF) >> 1
            return target
        slot = (slot + 1) & mask
    return -1


@helper
def _find_long(
    names: JsonNames, data: np.ndarray, at: int, length: int, node: int, hash: int
) -> int:  # pragma: no cover
    """The target that a longer key leads to, or -1."""
    slots = names.slots
    mask = slots.shape[0] - 1
    slot = hash & mask
    while slots[slot, WHERE] != 0:
        found = slots[slot, WHERE]
        is_like = slots[slot, HASH] == hash and found >> 32 == node and found & 1 and slots[slot, LENGTH] == length
        if is_like and shared(names.keys, slots[slot, START], data, at, length) == length:
            target: int = (found & 0xFFFF_FFFF) >> 1
            return target
        slot = (slot + 1) & mask
    return -1


@inlined
def read_key(
    data: np.ndarray, at: int, end: int, node: int, names: JsonNames
) -> tuple[int, int, np.uint64]:  # pragma: no cover
    """The target of the key that begins at `at`, or -1; the place of the quote after it, or BAD; a hash if it has none.

    A short key that is known needs no other check: no name in the table has a quote, an escape or a control character.
    """
    is_near_end = at + 8 > data.size
    if node >= 0 and not is_near_end:
        word = load_word(data, at)
        quotes = quotes_in(word)
        if quotes != np.uint64(0):
            length = first_byte(quotes)
            target = _find_short(names.slots, short_word(word, length), node)
            if target >= 0:
                return target, at + length, np.uint64(0)
    stop, escaped = scan_string(data, at, end)
    if stop < 0 or escaped:
        return -1, BAD, np.uint64(0)
    size = stop - at
    target = -1
    hash = long_hash(data, at, size, node)
    if node >= 0 and size > SHORT:
        target = _find_long(names, data, at, size, node, signed(hash))
    elif node >= 0 and is_near_end:
        word = np.uint64(0)
        for i in range(size):
            word |= np.uint64(data[at + i]) << np.uint64(8 * i)
        target = _find_short(names.slots, short_word(word, size), node)
    return target, stop, hash


def build_names(attributes: Mapping[str, int], flags: Mapping[str, int]) -> tuple[JsonNames, list[str]] | None:
    """These attributes and those that have flags, and the name of each target; None if some name has too many dots.

    A name that JSON must write with escapes is left out: Python reads events that have escapes in keys.
    """
    names = [name for name in {**attributes, **flags} if not _has_escapes(name)]
    if any(name.count(".") > MOST_DOTS for name in names):
        return None
    above = {name[:dot] for name in names for dot in _dots(name)}
    targets = {name: number for number, name in enumerate(dict.fromkeys([*names, *above]), 1)}
    edges = [(0, name, target) for name, target in targets.items()]
    edges += [(targets[name[:dot]], name[dot + 1 :], target) for name, target in targets.items() for dot in _dots(name)]
    attr, flag = np.full(len(targets) + 1, -1, np.int32), np.zeros(len(targets) + 1, np.uint8)
    for name, target in targets.items():
        attr[target] = attributes.get(name, -1)
        flag[target] = flags.get(name, 0) | (ABOVE if name in above else 0)
    texts = [key.encode() for _, key, _ in edges]
    cuts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.array([len(text) for text in texts], np.int64), out=cuts[1:])
    slots = np.zeros((1 << max(4, (4 * len(edges)).bit_length()), 4), np.int64)
    keys = np.frombuffer(b"".join(texts) + bytes(8), np.uint8)
    nodes, leads_to = (np.array([edge[side] for edge in edges], np.int64) for side in (0, 2))
    _fill_slots(keys, cuts, nodes, leads_to, slots)
    return JsonNames(*(read_only(array) for array in (attr, flag, slots, keys))), ["", *targets]


def _dots(name: str) -> Iterator[int]:
    return (at for at, letter in enumerate(name) if letter == ".")


def _has_escapes(name: str) -> bool:
    return any(letter < " " or letter in '"\\' for letter in name)
