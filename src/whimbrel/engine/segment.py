"""A segment: an immutable, compiled part of the index, and how a block of events is matched against it."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from weakref import ref

import numpy as np

from whimbrel.engine.clauses import Clauses
from whimbrel.engine.codec import Codec, Encoded
from whimbrel.engine.kernel_arrays import NUMBERS, ONE, SCRATCH, SEGMENT, One, Scratch, SegmentArrays
from whimbrel.engine.kernels import match_many, match_one
from whimbrel.engine.layout import lay_out
from whimbrel.engine.lookup import fixed
from whimbrel.engine.planner import KINDS, make_plan
from whimbrel.engine.views import words_of
from whimbrel.engine.warmup import tell_if_cold
from whimbrel.engine.weights import guess_weights, item_shares, sample_weights

BLOCK = 1_024
"""Events that a kernel takes at once, at most: a chunk's bits are read once for all of them."""
CELLS = 40_960
"""Cells of a block's grid of attributes and events, at most, so that it stays in the cache."""
PAIRS = 1 << 21
"""Pairs that a call gives, about: its buffers grow beyond twice that only for a single event with more."""
MOST_SLOTS = 1 << 29
"""Slots must stay below, as their numbers share an int32 with two flags."""


class Segment:
    """Arrays by name, small facts in `meta`, and what is derived from them. Immutable, safe for many threads."""

    def __init__(self, arrays: Mapping[str, np.ndarray], meta: dict[str, object]) -> None:
        self.arrays = arrays
        self.meta = meta
        self.codec = Codec(arrays, meta)
        compact = np.full(len(self.attributes) + 1, -1, np.int32)
        compact[arrays["bits_attrs"]] = np.arange(len(arrays["bits_attrs"]), dtype=np.int32)
        self.kernel_arrays = SegmentArrays(
            *(fixed(compact if name == "bits_compact" else arrays[name]) for name in SegmentArrays._fields)
        )
        self.words = words_of(SEGMENT, self.kernel_arrays) + words_of(NUMBERS, self.codec.numbers)

    @staticmethod
    def build(clauses: Clauses, sample: object = None) -> Segment:
        """Plan and lay out clauses; `sample`, encoded by the codec, says what events are like."""
        tell_if_cold(match_many)
        weights = guess_weights(clauses)
        if sample is not None:
            codec = Codec(clauses.dictionary, clauses.meta)
            encoded = codec.encode_events(sample) if isinstance(sample, list) else codec.encode_table(sample)
            weights = sample_weights(clauses, encoded.count, encoded.attrs, encoded.ranks)
        shares = item_shares(clauses, weights)
        plan = make_plan(clauses, weights, shares)
        arrays = {**clauses.dictionary, **lay_out(clauses, plan, weights, shares)}
        slots = np.unique(np.concatenate([clauses.slot, clauses.always]))
        arrays["slots"] = slots.astype(np.int32)
        kinds = np.bincount(plan.kind, minlength=len(KINDS)).tolist()
        meta = {
            **clauses.meta,
            "subscriptions": len(slots),
            "conjunctions": len(clauses.slot),
            "verified": bool((clauses.flags & 1).any()),
            "keys": dict(zip(KINDS, kinds, strict=True)),
        }
        return Segment(arrays, meta)

    @property
    def attributes(self) -> list[str]:
        """The attributes that its filters mention."""
        names = self.meta["attributes"]
        assert isinstance(names, list)
        return names

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


class Workspace:
    """The buffers of one thread: what kernels write, reused from block to block and from segment to segment."""

    def __init__(self) -> None:
        self._values = np.full(0, -1, np.int32)
        self._present = np.empty(0, np.int32)
        self._stamp = np.zeros(0, np.uint32)
        self._epoch = np.zeros(1, np.uint32)
        self._cells = (np.empty(0, np.int32), np.empty(0, np.int32))
        self._alive = np.empty(BLOCK + 1, np.int32)
        self._pair_event = np.empty(1 << 14, np.int32)
        self._pair_slot = np.empty(1 << 14, np.int32)
        self._run = np.empty(1 << 12, np.int64)
        self.counts = np.zeros(4, np.int64)
        self.out = np.empty(1 << 16, np.int32)
        self.offsets = np.zeros(BLOCK + 1, np.int64)
        self._one = np.zeros((2, 2), np.int64)
        self._entries = np.empty((2, 256), np.int32)
        self._fitted: tuple[ref[Segment], np.ndarray] | None = None

    def words(self, segment: Segment, slots: int) -> np.ndarray:
        """Where kernels find the arrays of a segment of an index with so many slots, and buffers large enough."""
        if self._fitted is not None and self._fitted[0]() is segment and len(self._stamp) >= slots:
            return self._fitted[1]
        attributes, used = len(segment.attributes) + 1, len(segment.arrays["bits_attrs"])
        if len(self._values) < attributes:
            self._values = np.full(attributes, -1, np.int32)
            self._present = np.empty(attributes, np.int32)
        if len(self._stamp) < slots:
            self._stamp = np.zeros(max(slots, 2 * len(self._stamp)), np.uint32)
        cells = used * segment.block
        if len(self._cells[0]) < cells:
            self._cells = (np.empty(cells, np.int32), np.empty(cells, np.int32))
        grid = self._cells[0][:cells].reshape(used, segment.block)
        rows = self._cells[1][:cells].reshape(segment.block, used)
        scratch = Scratch(
            self._values,
            self._present,
            self._stamp,
            self._epoch,
            grid,
            rows,
            self._alive,
            self._pair_event,
            self._pair_slot,
            self._run,
            self.counts,
        )
        one = One(self._one[0], self._entries[0], self._entries[1], self._one[1], self.out)
        words = np.array(segment.words + words_of(SCRATCH, scratch) + words_of(ONE, one), np.int64)
        self._fitted = (ref(segment), words)
        return words

    def _grow(self, used: int) -> None:
        """Doubles the buffers of results; the first `used` slots stay."""
        larger = np.empty(2 * len(self.out), np.int32)
        larger[:used] = self.out[:used]
        self.out = larger
        self._pair_event = np.empty(2 * len(self._pair_event), np.int32)
        self._pair_slot = np.empty(2 * len(self._pair_slot), np.int32)
        self._run = np.empty(2 * len(self._run), np.int64)
        self._fitted = None

    def match_one(self, segment: Segment, attrs: array[int], cells: list[float], slots: int) -> np.ndarray:
        """The slots that one event matches, given as what `Codec.append` collects; a view of the reused buffer."""
        self._renew_epoch()
        count = len(attrs)
        if not count:  # no buffer to look at
            return self.match_some(segment, segment.codec.encode_event({}), slots, 1)[1]
        if count > self._entries.shape[1]:
            self._entries = np.empty((2, 2 * count), np.int32)
            self._fitted = None
        places, values = np.frombuffer(attrs, np.int32), np.frombuffer(array("d", cells), np.float64)
        while (found := match_one(self.words(segment, slots), places, values)) < 0:
            self._grow(0)
        return self.out[:found]

    def match_some(
        self, segment: Segment, encoded: Encoded, slots: int, stop: int, pairs: int = PAIRS
    ) -> tuple[np.ndarray, np.ndarray]:
        """Match encoded events up to `stop`, or at least one, to about so many pairs.

        Where the slots of each event that was matched end, and the slots; views of the reused buffers.
        """
        self._renew_epoch()
        if len(self.offsets) <= stop:
            self.offsets = np.zeros(stop + 1, np.int64)
        used = first = 0
        block = segment.block
        self.offsets[0] = 0
        while first < stop and (used < pairs or not first):
            count = min(block, stop - first)
            found = match_many(
                self.words(segment, slots), encoded.offsets, encoded.attrs, encoded.ranks, first, count,
                self.offsets[first:], self.out[used:],
            )  # fmt: skip
            if found < 0:
                self.offsets[first] = used
                if len(self.out) < 2 * PAIRS or (first == 0 and count == 1):
                    self._grow(used)
                elif count > 1:
                    block = count // 2
                else:
                    break
                continue
            self.offsets[first : first + count + 1] += used
            used += int(found)
            first += count
        return self.offsets[: first + 1], self.out[:used]

    def _renew_epoch(self) -> None:
        if self._epoch[0] > 1 << 31:
            self._epoch[0] = 0
            self._stamp[:] = 0
