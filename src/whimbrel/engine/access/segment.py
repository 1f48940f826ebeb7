"""A segment: an immutable, compiled part of the index."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import to_builtins

from whimbrel.compiled.views import read_only, words_of
from whimbrel.compiled.warm_up import tell_if_cold
from whimbrel.engine.access.hash.candidates import bucket_factor
from whimbrel.engine.access.hash.layout import schema_lines
from whimbrel.engine.access.layout import lay_out
from whimbrel.engine.access.matching import match
from whimbrel.engine.access.planner import KINDS, make_plan
from whimbrel.engine.access.shared.arrays import SEGMENT, SegmentArrays
from whimbrel.engine.access.shared.weights import guess_weights, item_shares, sample_weights
from whimbrel.ranks.clauses.clauses import Clauses
from whimbrel.ranks.dictionary import Dictionary
from whimbrel.ranks.distinct import distinct
from whimbrel.ranks.encoding.event_encoder import EventEncoder
from whimbrel.ranks.kernel_arrays import NUMBERS, READING

BLOCK = 4_096
"""Events that a kernel takes at once, at most: a chunk's bits are read once for all of them."""
CELLS = 81_920
"""Cells of a block's grid of attributes and events, at most, so that it stays in the cache."""
MOST_SLOTS = 1 << 29
"""Slots must stay below, as their numbers share an int32 with two flags."""


class Segment:
    """Arrays by name, small facts in `meta`, and what is derived from them. Immutable, safe for many threads."""

    def __init__(self, arrays: Mapping[str, np.ndarray], meta: dict[str, object]) -> None:
        self.arrays = arrays
        self.meta = meta
        self.dictionary = Dictionary.stored(arrays, meta)
        self.encoder = EventEncoder(self.dictionary)
        compact = np.full(len(self.attributes) + 1, -1, np.int32)
        compact[arrays["bits_attrs"]] = np.arange(len(arrays["bits_attrs"]), dtype=np.int32)
        derived = {
            "bits_compact": compact,
            "hash_lines": schema_lines(arrays),
            "hash_buckets": bucket_factor(arrays["rank_base"][:, 4].astype(np.int64)),
        }
        self.kernel_arrays = SegmentArrays(
            *(read_only(derived[name] if name in derived else arrays[name]) for name in SegmentArrays._fields)
        )
        encoder = self.encoder
        self.words = [
            *words_of(NUMBERS, encoder.numbers),
            *words_of(READING, encoder.reading),
            *words_of(SEGMENT, self.kernel_arrays),
        ]

    @staticmethod
    def build(clauses: Clauses, sample: object = None) -> Segment:
        """Plan and lay out clauses; `sample`, encoded by the encoder, says what events are like."""
        tell_if_cold(match)
        weights = guess_weights(clauses)
        if sample is not None:
            encoder = EventEncoder(clauses.dictionary)
            encoded = encoder.encode_events(sample) if isinstance(sample, list) else encoder.encode_table(sample)
            weights = sample_weights(clauses, encoded.count, encoded.attrs, encoded.ranks)
        shares = item_shares(clauses, weights)
        plan = make_plan(clauses, weights, shares)
        arrays = {**clauses.dictionary.arrays, **lay_out(clauses, plan, weights, shares)}
        slots = distinct(np.concatenate([clauses.row, clauses.always]))
        arrays["slots"] = slots.astype(np.int32)
        kinds = np.bincount(plan.kind, minlength=len(KINDS)).tolist()
        meta = {
            **to_builtins(clauses.dictionary.meta),
            "subscriptions": len(slots),
            "conjunctions": len(clauses.row),
            "verified": bool((clauses.flags & 1).any()),
            "keys": dict(zip(KINDS, kinds, strict=True)),
        }
        return Segment(arrays, meta)

    @property
    def attributes(self) -> list[str]:
        """The attributes that its filters mention; a derived one has the name of the one whose fragments it has."""
        return self.dictionary.names

    @property
    def derived(self) -> dict[int, tuple[int, bool]]:
        """The derived attributes: the attribute whose fragments each has, and whether tests of it are joined."""
        return {attr: (source, is_joined) for attr, source, is_joined in self.dictionary.meta.derived}

    @property
    def slots(self) -> np.ndarray:
        """The slots of its subscriptions, sorted."""
        return self.arrays["slots"]

    @property
    def block(self) -> int:
        """Events that a kernel takes at once."""
        return max(64, min(BLOCK, CELLS // max(1, len(self.arrays["bits_attrs"]))))

    def nbytes(self) -> int:
        """The bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())
