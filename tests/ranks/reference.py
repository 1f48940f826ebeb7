"""The definition of ranks in plain Python, and what the tests of the encoder share."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from tests import strategies as ws
from whimbrel.model.constraint import NULL_KEY
from whimbrel.model.values import STRING, SortKey, canonical_number
from whimbrel.ranks import dictionary_builder
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.dictionary_builder import build_dictionary
from whimbrel.ranks.encoding.encoded_events import EncodedEvents
from whimbrel.ranks.encoding.event_encoder import EventEncoder

Constants = dict[str, Any]

NUMBERS = [canonical_number(n) for n in ws.NUMBERS] + [2**64 - 1, 2**64 - 2048, -(2**63), 65504, 0.1, 1 / 3, 123.45]
FLOATS = [float(n) for n in NUMBERS if abs(n) < 10**300 or isinstance(n, float)]
INT64 = [n for n in (*NUMBERS, 2**62, -(2**62), 10**15) if isinstance(n, int) and -(2**63) <= n < 2**63]
TIMES = [t.nanoseconds for t in ws.TIMESTAMPS] + [2**63 - 1, -(2**63), 86_400 * 10**9]


class Ranks:
    """The definition: blocks of types, and 2 * (constants below) + (equal)."""

    def __init__(self, own: Constants, ordered: bool = True) -> None:
        self.blocks: list[list[Any]] = [[False, True]]
        self.blocks += [sorted(set(own.get(name, ()))) for name in ("numbers", "strings", "times")]
        self.ordered = ordered

    def of(self, key: SortKey) -> int:
        if key == NULL_KEY:
            return 0
        kind, value = key
        block = self.blocks[kind]
        base = 1 + sum(2 * len(block) + 1 for block in self.blocks[:kind])
        below = bisect_left(block, value)
        if below < len(block) and block[below] == value:
            return base + 2 * below + 1
        if kind == STRING and not self.ordered:  # any gap will do, and this is the one
            below = len(block)
        return base + 2 * below


def lists(pool: Sequence[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.sampled_from(pool), max_size=8)


number_lists = st.one_of(
    lists(NUMBERS), lists(FLOATS), lists(INT64), lists([0, 1, 2, 3, 7]), st.lists(st.floats(allow_nan=False))
).map(lambda found: [canonical_number(n) for n in found])
constants = st.fixed_dictionaries(
    {}, optional={"numbers": number_lists, "strings": lists(ws.STRINGS), "times": lists(TIMES)}
)


def dictionary_of(named: dict[str, Constants], ordered: Sequence[str] = ()) -> Dictionary:
    gathered = []
    for name, own in named.items():
        given = dictionary_builder.Constants(ordered=name in ordered)
        numbers, strings, times = (own.get(kind, []) for kind in ("numbers", "strings", "times"))
        (given.arrays if isinstance(numbers, np.ndarray) else given.numbers).extend(
            [numbers] if isinstance(numbers, np.ndarray) else numbers
        )
        given.strings.append(strings if isinstance(strings, list) else strings.cast(pa.large_string()))
        given.times.append(times)
        gathered.append(given)
    return build_dictionary(list(named), gathered)


def make(named: dict[str, Constants], ordered: Sequence[str] = ()) -> EventEncoder:
    dictionary = dictionary_of(named, ordered)
    for array in dictionary.arrays.values():
        array.flags.writeable = False  # as a memory map is
    return EventEncoder(dictionary)


def entries(encoded: EncodedEvents) -> list[dict[int, set[int]]]:
    """Per event the set of ranks of each attribute; checks what the layout promises."""
    assert encoded.offsets.dtype == np.int64 and encoded.attrs.dtype == encoded.ranks.dtype == np.int32
    assert encoded.coupled.dtype == np.uint8 and len(encoded.coupled) == encoded.count
    assert len(encoded.offsets) == encoded.count + 1 and encoded.offsets[0] == 0
    assert encoded.offsets[-1] == len(encoded.attrs) == len(encoded.ranks)
    out = []
    for start, end in pairwise(encoded.offsets):
        attrs = encoded.attrs[start:end].tolist()
        found: dict[int, set[int]] = {}
        for at, (attr, rank) in enumerate(zip(attrs, encoded.ranks[start:end].tolist(), strict=True)):
            assert attr not in found or attrs[at - 1] == attr, "entries of one attribute are adjacent"
            found.setdefault(attr, set()).add(rank)
        out.append(found)
    return out


def same(one: EncodedEvents, two: EncodedEvents) -> bool:
    return entries(one) == entries(two) and one.coupled.tolist() == two.coupled.tolist()
