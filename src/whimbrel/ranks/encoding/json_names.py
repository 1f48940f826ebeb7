"""The names that a JSON reader looks for: each attribute that filters mention, in all ways that keys may spell it.

`a.b.c` is one attribute whether an object has it as `{"a": {"b": {"c": 1}}}`, as `{"a.b": {"c": 1}}` or as
`{"a.b.c": 1}`. So every name, and every name above one (`a` and `a.b`), is a *target*; keys lead from target to target:
`b.c` leads from `a` to `a.b.c`. The keys of all targets are in one hash table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s
from whimbrel.compiled.helpers import item, load_word, shared
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.compiled.views import read_only, tuple_of_arrays
from whimbrel.model.event_tables import dots, names_above
from whimbrel.ranks.encoding.json_scan_kernels import BAD, first_byte, odd_bytes, quotes_in, signed
from whimbrel.ranks.string_kernels import SHORT, load_short, mixed, short_word

ABOVE, PYTHON_KEYS = 16, 32
"""Flags of a target, beside those of `name_table`: other targets lie below it; on the event itself: Python must read
events with escapes in keys."""

MOST_DOTS = 16
"""Dots of a name, at most: there are as many keys as pairs of dots."""

HASH, WHERE, START, LENGTH = 0, 1, 2, 3
"""Columns of the hash table. WHERE is 0 in a free slot, else `where` of the key."""
_COLUMNS = 4

_NODE_FACTOR = np.uint64(0x9E37_79B9_7F4A_7C15)


class JsonNames(NamedTuple):
    """The targets, of which 0 is the event itself, and the hash table of their keys."""

    attr: Int32s  # [t]: the attribute of each target, -1 if no filter mentions it
    flags: Bytes  # [t]
    slots: Int64s  # [4 * s]
    keys: Bytes  # the bytes of all keys


NAMES = tuple_of_arrays(JsonNames, False)


@inlined
def short_hash(word: np.uint64, node: int) -> np.uint64:
    """The hash of the word of a short key below target `node`; other short keys below it have other hashes."""
    return mixed(word ^ (np.uint64(node) * _NODE_FACTOR))


@helper
def long_hash(data: Bytes, at: int, length: int, node: int) -> np.uint64:
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
def where(node: int, target: int, length: int) -> int:
    """The word of a key in a slot: the target above it, the target that it leads to, and whether it is long."""
    return (node << 32) | (target << 1) | int(length > SHORT)


@kernel
def _fill_slots(keys: Bytes, cuts: Int64s, nodes: Int64s, targets: Int64s, slots: Int64s) -> None:
    mask = slots.size // _COLUMNS - 1
    for k in range(nodes.size):
        at, length = cuts[k], cuts[k + 1] - cuts[k]
        if length > SHORT:
            hash = long_hash(keys, at, length, nodes[k])
        else:
            hash = short_hash(load_short(keys, at, length), nodes[k])
        slot = np.int64(hash) & mask
        while slots[_COLUMNS * slot + WHERE] != 0:
            slot = (slot + 1) & mask
        own = slots[_COLUMNS * slot : _COLUMNS * (slot + 1)]
        own[HASH], own[WHERE] = np.int64(hash), where(nodes[k], targets[k], length)
        own[START], own[LENGTH] = at, length


@inlined
def _find_short(slots: Int64s, hash: np.uint64, node: int) -> int:
    """The target that a short key leads to, or -1."""
    mask = slots.size // _COLUMNS - 1
    slot = signed(hash) & mask
    while True:
        at = _COLUMNS * slot
        found = item(slots, at + WHERE)
        if item(slots, at + HASH) == signed(hash) and found >> 32 == node and found & 1 == 0 and found != 0:
            target: int = (found & 0xFFFF_FFFF) >> 1
            return target
        if found == 0:
            return -1
        slot = (slot + 1) & mask


@inlined
def _find_long(slots: Int64s, keys: Bytes, data: Bytes, at: int, length: int, node: int, hash: int) -> int:
    """The target that a longer key leads to, or -1."""
    mask = slots.size // _COLUMNS - 1
    slot = hash & mask
    while True:
        own = _COLUMNS * slot
        found = item(slots, own + WHERE)
        if found == 0:
            return -1
        start = item(slots, own + START)
        is_like = item(slots, own + HASH) == hash and found >> 32 == node and found & 1
        is_like = is_like and item(slots, own + LENGTH) == length
        if is_like and shared(keys, start, data, at, length) == length:
            target: int = (found & 0xFFFF_FFFF) >> 1
            return target
        slot = (slot + 1) & mask


@inlined
def find_key(data: Bytes, at: int, length: int, node: int, slots: Int64s, keys: Bytes) -> tuple[int, np.uint64]:
    """The target of any key, given without escapes, or -1; and its hash."""
    if length <= SHORT:
        hash = short_hash(load_short(data, at, length), node)
        return _find_short(slots, hash, node) if node >= 0 else -1, hash
    hash = long_hash(data, at, length, node)
    return _find_long(slots, keys, data, at, length, node, signed(hash)) if node >= 0 else -1, hash


@inlined
def find_short_key(data: Bytes, at: int, node: int, slots: Int64s) -> tuple[int, int, np.uint64]:
    """The target of the short key that begins at `at`, or -1; the place of the quote after it, or BAD; and its hash.

    BAD if it is no short key, or must be looked at byte by byte. A key that is known needs no other check: no name in
    the table has a quote, an escape or a control character.
    """
    if at + 8 <= data.size:
        word = load_word(data, at)
        quotes = quotes_in(word)
        if quotes != np.uint64(0):
            length = first_byte(quotes)
            hash = short_hash(short_word(word, length), node)
            target = _find_short(slots, hash, node) if node >= 0 else -1
            odd = odd_bytes(word)
            if target >= 0 or odd == np.uint64(0) or first_byte(odd) > length:
                return target, at + length, hash
    return -1, BAD, np.uint64(0)


def build_names(attributes: Mapping[str, int], flags: Mapping[str, int]) -> tuple[JsonNames, list[str]] | None:
    """Build the table of these attributes and of names with flags, and the name of each target.

    None if some name has too many dots. A name that JSON must write with escapes is left out: then Python reads events
    that have escapes in keys.
    """
    wanted = {**attributes, **flags}
    names = [name for name in wanted if not _has_escapes(name)]
    if any(name.count(".") > MOST_DOTS for name in names):
        return None
    above = names_above(names)
    targets = {name: number for number, name in enumerate(dict.fromkeys([*names, *above]), 1)}
    edges = [(0, name, target) for name, target in targets.items()]
    edges += [(targets[name[:dot]], name[dot + 1 :], target) for name, target in targets.items() for dot in dots(name)]
    attr, flag = np.full(len(targets) + 1, -1, np.int32), np.zeros(len(targets) + 1, np.uint8)
    flag[0] = PYTHON_KEYS if len(names) < len(wanted) else 0
    for name, target in targets.items():
        attr[target] = attributes.get(name, -1)
        flag[target] = flags.get(name, 0) | (ABOVE if name in above else 0)
    texts = [key.encode() for _, key, _ in edges]
    cuts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.array([len(text) for text in texts], np.int64), out=cuts[1:])
    slots = np.zeros(_COLUMNS << max(4, (4 * len(edges)).bit_length()), np.int64)
    keys = np.frombuffer(b"".join(texts) + bytes(8), np.uint8)
    nodes, leads_to = (np.array([edge[side] for edge in edges], np.int64) for side in (0, 2))
    _fill_slots(keys, cuts, nodes, leads_to, slots)
    return JsonNames(*(read_only(array) for array in (attr, flag, slots, keys))), ["", *targets]


def _has_escapes(name: str) -> bool:
    return any(letter < " " or letter in '"\\' for letter in name)
