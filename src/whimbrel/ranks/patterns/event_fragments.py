"""Finds the fragments of events: the values of derived attributes, from the strings of their sources.

A fragment of the kind `some` is a value if any string of the source has it; one of the kind `every`, if all values of
the source that are not null have it. So a single pattern is decided exactly, whatever the event. Several tests of one
attribute must hold for the same value: if the attribute has several values, the event is marked SEVERAL and the filter
itself is evaluated.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import lib

from whimbrel.compiled.jit import entry_for
from whimbrel.compiled.views import read_only
from whimbrel.model.patterns import lower_case
from whimbrel.model.values import STRING, SortKey, to_value
from whimbrel.ranks.arrow import values_of
from whimbrel.ranks.cells import boxed
from whimbrel.ranks.column_layout import ColumnLeaf, storage
from whimbrel.ranks.columns import is_text, text_buffers
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.list_columns import ListRanks
from whimbrel.ranks.patterns.event_kernels import NETWORKS_4, NETWORKS_6, SEARCH_WORDS, append_fragments
from whimbrel.ranks.patterns.networks import Networks4, Networks6, open_networks
from whimbrel.ranks.patterns.pattern_trie import (
    FOLDED_START,
    PatternTrie,
    folded_texts,
    is_every,
    one_text,
    open_tries,
)

SEVERAL = 2
"""The mark of an event with several values whose patterns the filter itself must verify."""


class SeenValues(NamedTuple):
    """The values of a source in a table: row r has values[starts[r]:ends[r]]. Nulls have rank 0."""

    attr: int
    values: pa.Array | None
    """None if they are no strings."""
    ranks: np.ndarray
    starts: np.ndarray | None
    """None if row r has value r."""
    ends: np.ndarray | None


class FragmentHits(NamedTuple):
    """The ranks of the fragments of strings: string i has ranks[starts[i]:ends[i]]."""

    ranks: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class DerivedAttribute:
    """An attribute whose values are the fragments of the strings of another attribute, its source."""

    def __init__(
        self, arrays: Mapping[str, np.ndarray], attr: int, name: str, tries: list[PatternTrie], is_joined: bool
    ) -> None:
        self.attr = attr
        self.name = name
        """The name of the source."""
        self.is_joined = is_joined
        """Whether some filter has several tests of the source that must hold for the same value."""
        self._arrays = arrays
        self._plain_tries = [trie for trie in tries if not trie.is_folded]
        self._folded_tries = [trie for trie in tries if trie.is_folded]

    @cached_property
    def _tries(self) -> list[PatternTrie | Networks4 | Networks6]:
        return [*self._plain_tries, *open_networks(self._arrays, self.attr)]

    def searches(self) -> Iterator[tuple[int, list[int]]]:
        """The searches of `append_fragments`: the kind and the words of each trie or network table."""
        for one in [*self._tries, *self._folded_tries]:
            if isinstance(one, Networks6):
                yield NETWORKS_6, []
            else:
                yield NETWORKS_4 if isinstance(one, Networks4) else one.kind, one.words.tolist()

    @cached_property
    def _is_every(self) -> np.ndarray:
        return is_every(self._arrays, self.attr)

    @cached_property
    def _base(self) -> int:
        return int(self._arrays["rank_base"][self.attr, STRING])

    def _every(self, ranks: np.ndarray) -> np.ndarray:
        """A mask of the ranks whose fragments are of the kind `every`."""
        mask: np.ndarray = self._is_every[(ranks - self._base) >> 1]
        return mask

    def ranks_of(self, text: str) -> list[int]:
        """The ranks of the fragments of one text."""
        found = [rank for trie in self._tries for rank in trie.find(*one_text(text))[1].tolist()]
        if self._folded_tries:
            folded = one_text(FOLDED_START + lower_case(text))
            found += [rank for trie in self._folded_tries for rank in trie.find(*folded)[1].tolist()]
        return found

    def ranks_of_several(self, texts: Sequence[str], values: int) -> tuple[list[int], int]:
        """The ranks, and the mark, of an event with `values` values that are not null, of which `texts` are strings."""
        counts = Counter(rank for text in texts for rank in self.ranks_of(text))
        if not counts:
            return [], 0
        ranks = np.array(list(counts), np.int64)
        times = np.array(list(counts.values()), np.int64)
        kept: list[int] = ranks[~self._every(ranks) | (times == values)].tolist()
        return kept, SEVERAL if self.is_joined else 0

    def hits(self, values: pa.Array) -> FragmentHits:
        """The ranks of the fragments of all strings of an array."""
        if values.type.id == lib.Type_DICTIONARY:
            if len(values.dictionary) > len(values):
                return self.hits(storage(values.dictionary_decode()))
            known = self.hits(storage(values.dictionary))
            places = values_of(values.indices.fill_null(0)).astype(np.int64)
            if not len(known.starts):  # all are null
                return FragmentHits(known.ranks, places, places)
            return FragmentHits(known.ranks, known.starts[places], known.ends[places])
        if not len(values) or not is_text(values):
            nothing = np.zeros(len(values), np.int64)
            return FragmentHits(np.empty(0, np.int32), nothing, nothing)
        offsets, data = map(read_only, text_buffers(values, self.name))
        found = [trie.find(offsets, data) for trie in self._tries]
        if self._folded_tries:
            folded = folded_texts(offsets, data)
            found += [trie.find(*folded) for trie in self._folded_tries]
        if len(found) == 1:
            ends, ranks = found[0]
            return FragmentHits(ranks, ends[:-1], ends[1:])
        rows = np.concatenate([np.repeat(np.arange(len(values)), np.diff(ends)) for ends, _ in found])
        order = np.argsort(rows, kind="stable")
        total = np.sum([ends for ends, _ in found], axis=0)
        return FragmentHits(np.concatenate([ranks for _, ranks in found])[order], total[:-1], total[1:])

    def part(self, seen: Sequence[SeenValues], rows: int, marks: np.ndarray) -> ListRanks:
        """The ranks of all rows of a table. Marks the rows whose patterns must be verified."""
        hits = [self.hits(pa.nulls(len(one.ranks)) if one.values is None else one.values) for one in seen]
        if len(seen) == 1 and seen[0].starts is None:
            ends = np.where(seen[0].ranks > 0, hits[0].ends, hits[0].starts)
            return ListRanks(self.attr, hits[0].ranks, hits[0].starts, ends)
        values = np.zeros(rows, np.int64)
        pairs: list[np.ndarray] = []
        for one, its in zip(seen, hits, strict=True):
            own, rows_of = _members(one, rows)
            real = one.ranks[own] > 0
            own, rows_of = own[real], rows_of[real]
            values += np.bincount(rows_of, minlength=rows)
            sizes = its.ends[own] - its.starts[own]
            places = np.repeat(its.starts[own] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
            pairs.append(np.repeat(rows_of, sizes) << 32 | its.ranks[places])
        found, times = np.unique(np.concatenate(pairs), return_counts=True)
        row, ranks = found >> 32, (found & 0xFFFF_FFFF).astype(np.int32)
        if self.is_joined:
            marks[row[values[row] > 1]] |= SEVERAL
        kept = ~self._every(ranks) | (times == values[row])
        cuts = np.searchsorted(row[kept], np.arange(rows + 1))
        return ListRanks(self.attr, ranks[kept], cuts[:-1], cuts[1:])


class EventFragments:
    """The derived attributes of a dictionary. Safe to use from many threads."""

    def __init__(self, dictionary: Dictionary) -> None:
        names, arrays = dictionary.names, dictionary.arrays
        tries = open_tries(arrays)
        self._by_attr: dict[int, DerivedAttribute] = {}
        self._by_name: dict[str, DerivedAttribute] = {}
        for attr, source, is_joined in dictionary.meta.derived:
            derived = DerivedAttribute(arrays, attr, names[source], tries.get(attr, []), is_joined)
            self._by_attr[source] = self._by_name[names[source]] = derived

    @cached_property
    def _searches(self) -> np.ndarray:
        """The searches as `append_fragments` takes them."""
        found = [
            [source, derived.attr, kind, *words]
            for source, derived in self._by_attr.items()
            for kind, words in derived.searches()
        ]
        rows = np.zeros((len(found), SEARCH_WORDS), np.int64)
        for row, words in zip(rows, found, strict=True):
            row[: len(words)] = words
        return rows.ravel()

    def append_kept(self, words: np.ndarray, count: int, texts: int) -> int:
        """Append fragments to the first `count` entries of an event that a kernel has read; `texts` of them have texts.

        The entries are among the `words`. Returns the number of entries, or -1 if `append_texts` must be used instead.
        """
        return self._append_fragments(words, self._searches, count, texts)

    @cached_property
    def _append_fragments(self) -> Callable[[np.ndarray, np.ndarray, int, int], int]:
        return entry_for(append_fragments, np.empty(0, np.int64), self._searches, 0, 0)

    def __contains__(self, attr: object) -> bool:
        return attr in self._by_attr

    @property
    def names(self) -> Collection[str]:
        """The names of attributes from whose strings others are derived."""
        return self._by_name.keys()

    def are_below(self, leaves: Sequence[ColumnLeaf]) -> bool:
        """Whether some leaf, or an attribute below it, has patterns."""
        return any(name == leaf.name or name.startswith(f"{leaf.name}.") for leaf in leaves for name in self._by_name)

    def parts(self, seen: Sequence[SeenValues], rows: int, marks: np.ndarray) -> list[ListRanks]:
        """The fragments of all attributes that were seen in a table."""
        return [
            self._by_attr[attr].part([one for one in seen if one.attr == attr], rows, marks)
            for attr in sorted({one.attr for one in seen})
        ]

    def append_flat(
        self, event: Mapping[str, Any], timestamps: Collection[str], attrs: array[int], cells: list[float]
    ) -> int:
        """Append the fragments of a flat object, whose values are checked already; return its mark."""
        mark = 0
        for name, derived in self._by_name.items():
            value = event.get(name)
            if value is None or name in timestamps:  # its texts are timestamps
                continue
            if type(value) is str:
                _append(derived.attr, derived.ranks_of(value), attrs, cells)
            elif type(value) is list or not isinstance(value, int | float):
                values = [to_value(one, name) for one in (value if type(value) is list else [value])]
                mark |= _append_all(derived, [one for one in values if one is not None], attrs, cells)
        return mark

    def append_texts(self, attr: int, texts: Sequence[str], values: int, attrs: array[int], cells: list[float]) -> int:
        """Append the fragments of an attribute with `values` values that are not null, of which `texts` are strings."""
        return _append_texts(self._by_attr[attr], texts, values, attrs, cells)

    def append(self, attr: int, keys: Collection[SortKey], attrs: array[int], cells: list[float]) -> int:
        """Append the fragments of an attribute that has these values; return the mark of the event."""
        derived = self._by_attr.get(attr)
        return (
            0 if derived is None else _append_all(derived, [value for kind, value in keys if kind >= 0], attrs, cells)
        )


def _append_all(derived: DerivedAttribute, values: Sequence[object], attrs: array[int], cells: list[float]) -> int:
    """Append the fragments of values that are not null; return the mark of the event."""
    return _append_texts(derived, [one for one in values if isinstance(one, str)], len(values), attrs, cells)


def _append_texts(
    derived: DerivedAttribute, texts: Sequence[str], values: int, attrs: array[int], cells: list[float]
) -> int:
    if values == 1 and texts:
        _append(derived.attr, derived.ranks_of(texts[0]), attrs, cells)
        return 0
    ranks, mark = derived.ranks_of_several(texts, values)
    _append(derived.attr, ranks, attrs, cells)
    return mark


def _append(attr: int, ranks: list[int], attrs: array[int], cells: list[float]) -> None:
    if ranks:
        attrs.extend([attr] * len(ranks))
        cells += map(boxed, ranks)


def _members(seen: SeenValues, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the values that rows have, and the row of each."""
    if seen.starts is None or seen.ends is None:
        return np.arange(rows), np.arange(rows)
    sizes = seen.ends - seen.starts
    of_rows = np.repeat(np.arange(rows), sizes)
    return np.repeat(seen.starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(len(of_rows)), of_rows
