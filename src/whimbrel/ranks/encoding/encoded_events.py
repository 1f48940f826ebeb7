"""Encoded events: the ranks of events, which are all that kernels see; and functions that combine them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from whimbrel.ranks.list_columns import ListRanks
from whimbrel.ranks.rank_kernels import append_runs


@dataclass(slots=True)
class EncodedEvents:
    """Events as ranks: event e has the entries offsets[e]:offsets[e + 1]. The entries of an attribute are adjacent.

    Null is rank 0; a missing attribute has no entry. An event is coupled if ranks alone do not decide: `coupled[e]` has
    1 if an attribute lies in an array of objects, 2 (`SEVERAL`) if several strings of an attribute have fragments of
    patterns, 4 (`LINKED`) if an attribute that is compared with another has several values.
    `arrays` has the names of all arrays of objects in which attributes lie, and perhaps others; None means any array.
    """

    count: int
    offsets: np.ndarray
    attrs: np.ndarray
    ranks: np.ndarray
    coupled: np.ndarray
    arrays: Collection[str] | None = ()
    elements: Callable[[], np.ndarray] | None = None
    """Returns for each entry the element of an array of objects in which its value lies, as `Entries.elements`.

    None if that is not known, or no event is coupled.
    """


def interleaved(count: int, *parts: tuple[np.ndarray, EncodedEvents]) -> EncodedEvents:
    """Combine parts to `count` events; each part has the numbers of its events. A later part replaces earlier ones."""
    sizes, coupled = np.zeros(count, np.int64), np.zeros(count, np.uint8)
    for numbers, part in parts:
        sizes[numbers], coupled[numbers] = np.diff(part.offsets), part.coupled
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    out = np.empty((2, int(offsets[-1])), np.int32)
    for numbers, part in parts:
        append_runs(part.offsets[:-1], part.offsets[1:], part.attrs, part.ranks, offsets[numbers], *out)
    return EncodedEvents(count, offsets, out[0], out[1], coupled, _arrays_of(*(part for _, part in parts)))


def _arrays_of(*parts: EncodedEvents) -> Collection[str] | None:
    """The arrays of objects of all parts; None if those of one part are not known."""
    known = [part.arrays for part in parts if part.arrays is not None]
    return None if len(known) < len(parts) else {name for names in known for name in names}


def united(one: EncodedEvents, two: EncodedEvents, attributes: int) -> EncodedEvents:
    """Unite the entries of both, event by event and attribute by attribute."""
    keys = np.concatenate(
        [np.repeat(np.arange(e.count), np.diff(e.offsets)) * attributes + e.attrs for e in (one, two)]
    )
    order = np.argsort(keys, kind="stable")
    attrs, ranks = (np.concatenate(pair)[order] for pair in ((one.attrs, two.attrs), (one.ranks, two.ranks)))
    coupled = one.coupled | two.coupled
    return EncodedEvents(one.count, one.offsets + two.offsets, attrs, ranks, coupled, _arrays_of(one, two))


def with_parts(encoded: EncodedEvents, parts: list[ListRanks]) -> EncodedEvents:
    """Append the ranks of other attributes to the entries of each event."""
    sizes = np.diff(encoded.offsets) + sum(part.ends - part.starts for part in parts)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    out = np.empty((2, int(offsets[-1])), np.int32)
    fill = offsets[:-1].copy()
    starts, ends = encoded.offsets[:-1], encoded.offsets[1:]
    append_runs(starts, ends, encoded.attrs, encoded.ranks, fill, *out)
    for part in parts:
        attrs = np.full(len(part.ranks), part.attr, np.int32)
        append_runs(part.starts, part.ends, attrs, part.ranks, fill, *out)
    made = EncodedEvents(encoded.count, offsets, out[0], out[1], encoded.coupled, encoded.arrays)
    elements = encoded.elements
    if elements is not None:
        made.elements = lambda: _moved_elements(elements(), starts, ends, offsets)
    return made


def _moved_elements(elements: np.ndarray, starts: np.ndarray, ends: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The elements of entries after others, which are in no array, were appended behind those of each event."""
    out = np.zeros((2, int(offsets[-1])), np.int32)
    append_runs(starts, ends, elements, elements, offsets[:-1].copy(), *out)
    moved: np.ndarray = out[0]
    return moved
