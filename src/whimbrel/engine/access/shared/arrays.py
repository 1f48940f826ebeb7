"""The arrays that the kernels of matching read and write, by name."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.views import tuple_of_arrays
from whimbrel.ranks.kernel_arrays import END_AT


class SegmentArrays(NamedTuple):
    """What the kernels read of a segment; the names are those of the stored arrays."""

    always: np.ndarray
    set_start: np.ndarray
    set_low: np.ndarray
    set_high: np.ndarray
    hash_attrs: np.ndarray
    hash_lines: np.ndarray
    hash_buckets: np.ndarray
    hash_base: np.ndarray
    hash_radix: np.ndarray
    hash_factor: np.ndarray
    hash_first: np.ndarray
    hash_table: np.ndarray
    hash_refs: np.ndarray
    hash_targets: np.ndarray
    hash_shift: np.ndarray
    hash_numbers: np.ndarray
    hash_records: np.ndarray
    signature_first: np.ndarray
    signature_classes: np.ndarray
    signature_bits: np.ndarray
    signature_key: np.ndarray
    signature_radix: np.ndarray
    signature_start: np.ndarray
    signature_dead: np.ndarray
    signature_slot: np.ndarray
    signature_record: np.ndarray
    sorted_start: np.ndarray
    sorted_first: np.ndarray
    sorted_upper: np.ndarray
    sorted_fixed: np.ndarray
    sorted_second: np.ndarray
    sorted_bound: np.ndarray
    sorted_low: np.ndarray
    sorted_high: np.ndarray
    sorted_slot: np.ndarray
    bits_compact: np.ndarray
    bits_bucket_start: np.ndarray
    bits_bucket_high: np.ndarray
    bits_first: np.ndarray
    bits_slot_start: np.ndarray
    bits_slot_attr: np.ndarray
    bits_slot_offset: np.ndarray
    bits_words: np.ndarray
    bits_zone_attr: np.ndarray
    bits_zone_low: np.ndarray
    bits_zone_high: np.ndarray
    bits_checked: np.ndarray
    bits_slot: np.ndarray
    bits_place: np.ndarray
    bits_items: np.ndarray


class Scratch(NamedTuple):
    """What one thread writes while it matches; reused from block to block."""

    value: np.ndarray  # int32[A], all -1 between events
    coarse: np.ndarray  # int32[A + 1]: ranks as references have them, by number, or as in `value`; the first is 0
    codes: np.ndarray  # int32[2 A + 1]: 0, then of each attribute its rank and its bucket, or -1 or -2 as above
    present: np.ndarray  # int32[A]: the attributes of the event
    stamp: np.ndarray  # uint32[slots]: the last event that reported a slot
    epoch: np.ndarray  # uint32[1]
    ranks: np.ndarray  # int32[compact attributes, block]
    rows: np.ndarray  # int32[block, 2 x compact attributes + 1]: by event, see chunk_kernels.load_block
    alive: np.ndarray  # int32[block]: the events for which a chunk is open, or the groups that a run leaves
    pair_event: np.ndarray  # int32[p]: where slots of an event begin, the event and how many there are
    pair_slot: np.ndarray  # int32[p]: what the chunks give
    run: np.ndarray  # int64[p]: where runs of hash entries lie
    counts: np.ndarray  # int64[4]: candidates, probes, chunks opened, verifications


class Task(NamedTuple):
    """The events of a call, and where their slots go."""

    offsets: np.ndarray  # int64[events + 1]: where the entries of an event begin
    attrs: np.ndarray  # int32[n]
    ranks: np.ndarray  # int32[n]
    ends: np.ndarray  # int64[events + 1]: where the slots of an event begin
    out: np.ndarray  # int32[m]: slots


SEGMENT = tuple_of_arrays(
    SegmentArrays,
    False,
    {
        "hash_attrs": ("int32", 2),
        "hash_lines": ("int64", 2),
        "hash_buckets": ("int64", 1),
        "hash_base": ("int64", 1),
        "hash_radix": ("int64", 2),
        "hash_factor": ("int64", 2),
        "hash_table": ("int64", 2),
        "hash_refs": ("int64", 1),
        "hash_targets": ("int32", 2),
        "signature_first": ("int32", 2),
        "signature_bits": ("uint64", 2),
        "signature_dead": ("uint64", 2),
        "sorted_upper": ("uint8", 1),
        "bits_slot_offset": ("int64", 1),
        "bits_words": ("uint64", 1),
        "bits_zone_attr": ("int32", 2),
        "bits_zone_low": ("int32", 2),
        "bits_zone_high": ("int32", 2),
        "bits_checked": ("uint8", 1),
        "bits_place": ("int32", 2),
        "bits_items": ("int32", 2),
    },
)
SCRATCH = tuple_of_arrays(
    Scratch,
    True,
    {
        "stamp": ("uint32", 1),
        "epoch": ("uint32", 1),
        "ranks": ("int32", 2),
        "rows": ("int32", 2),
        "run": ("int64", 1),
        "counts": ("int64", 1),
    },
)
TASK = tuple_of_arrays(Task, True, {"offsets": ("int64", 1), "ends": ("int64", 1)})
SEGMENT_AT = END_AT
SCRATCH_AT = SEGMENT_AT + SEGMENT.words
TASK_AT = SCRATCH_AT + SCRATCH.words
