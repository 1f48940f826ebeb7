"""A segment: an immutable, compiled part of the index, with the arrays of all access keys."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from whimbrel.compiled.views import words_of
from whimbrel.compiled.warm_up import tell_if_cold
from whimbrel.engine.access.kernel import match
from whimbrel.engine.access.registry import GROUPS, KINDS, kernel_arrays, lay_out, make_plan
from whimbrel.engine.access.shared.plan import guess_weights, sample_weights
from whimbrel.ranks.clauses.clauses import VERIFY, Clauses
from whimbrel.ranks.dictionary import Dictionary, DictionaryMeta
from whimbrel.ranks.distinct import distinct
from whimbrel.ranks.encoding.event_encoder import EventEncoder
from whimbrel.ranks.kernel_arrays import NUMBERS, READING

BLOCK = 4_096
"""Events that a kernel takes at once, at most: a chunk's bits are read once for all of them."""
CELLS = 81_920
"""Cells of a block's grid of attributes and events, at most, so that it stays in the cache."""


class SegmentMeta(DictionaryMeta, frozen=True, kw_only=True):
    """The small facts of a segment, those of its dictionary included, which its file has beside the arrays."""

    subscriptions: int
    """How many rows it has."""
    conjunctions: int
    """How many conjunctions the filters of these have, always-true ones not counted."""
    verified: bool
    """Whether some filter has the last word itself, as ranks do not decide it."""
    keys: dict[str, int]
    """How many conjunctions each kind of access key holds."""


class Segment:
    """Arrays by the names under which they are stored, and what is derived from them. Safe for many threads."""

    def __init__(self, arrays: Mapping[str, np.ndarray], meta: SegmentMeta) -> None:
        self.arrays = arrays
        self.meta = meta
        self.dictionary = Dictionary(arrays, meta)
        self.encoder = encoder = EventEncoder(self.dictionary)
        self.rows_within: dict[str, np.ndarray] = {}
        """Rows with several attributes below an array of objects, by its name; `matching.array_rows` fills it."""
        self.kernel_arrays = kernel_arrays(arrays)
        self.words = [*words_of(NUMBERS, encoder.numbers), *words_of(READING, encoder.reading)]
        for group, its_arrays in zip(GROUPS, self.kernel_arrays, strict=True):
            self.words += words_of(group.kind, its_arrays)

    @staticmethod
    def stored(arrays: Mapping[str, np.ndarray], facts: Mapping[str, object]) -> Segment:
        """A segment of what its file has."""
        return Segment(arrays, msgspec.convert(dict(facts), SegmentMeta))

    def facts(self) -> dict[str, object]:
        """What its file has beside the arrays."""
        facts: dict[str, object] = msgspec.to_builtins(self.meta)
        return facts

    @staticmethod
    def build(clauses: Clauses, sample: object = None) -> Segment:
        """Plan and lay out clauses; `sample`, events or a table of them, says what events are like."""
        tell_if_cold(match)
        weights = guess_weights(clauses)
        if sample is not None:
            encoded = EventEncoder(clauses.dictionary).encode(sample)
            weights = sample_weights(clauses, encoded.count, encoded.attrs, encoded.ranks)
        plan = make_plan(clauses, weights)
        arrays = {**clauses.dictionary.arrays, **lay_out(plan)}
        rows = distinct(np.concatenate([clauses.row, clauses.always]))
        arrays["slots"] = rows.astype(np.int32)
        kinds = np.bincount(plan.kind, minlength=len(KINDS)).tolist()
        facts = clauses.dictionary.meta
        meta = SegmentMeta(
            attributes=facts.attributes,
            exact_numbers=facts.exact_numbers,
            exact_times=facts.exact_times,
            derived=facts.derived,
            links=facts.links,
            subscriptions=len(rows),
            conjunctions=len(clauses.row),
            verified=bool((clauses.flags & VERIFY).any()),
            keys=dict(zip(KINDS, kinds, strict=True)),
        )
        return Segment(arrays, meta)

    @property
    def attributes(self) -> list[str]:
        """The attributes that its filters mention; a derived attribute has the name of its source."""
        return self.dictionary.names

    @property
    def derived(self) -> dict[int, tuple[int, bool]]:
        """The attributes with fragments: the source of each, and whether other tests ask for the same value of it."""
        return {attr: (source, is_joined) for attr, source, is_joined in self.meta.derived}

    @property
    def rows(self) -> np.ndarray:
        """The rows of its subscriptions, sorted."""
        return self.arrays["slots"]

    @property
    def block(self) -> int:
        """Events that a kernel takes at once."""
        return max(64, min(BLOCK, CELLS // max(1, len(self.arrays["bits_attrs"]))))

    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())
