"""Reads hash keys back: as conjunctions, for merges, and in words, for `Index.plan`.

The equalities that a key proves are decoded from the key; the other items are in the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from whimbrel.compiled.array_types import Int32Matrix, Int32s, Int64Matrix, Int64s
from whimbrel.compiled.jit import kernel
from whimbrel.engine.access.hash.keys import CANDIDATE_NS, table_entries
from whimbrel.engine.access.hash.layout import REFERENCES
from whimbrel.engine.access.shared.arrays import Arrays
from whimbrel.engine.access.shared.key import Explained, Packed, RankRange
from whimbrel.engine.access.shared.records import COUNT, HEAD, record_starts, records_with, split_records


def decode(arrays: Arrays) -> Packed:
    """Read back all conjunctions with hash keys."""
    a = arrays
    records, _ = split_records(a)
    starts = record_starts(records)
    sizes = records[starts[:-1]].astype(np.int64)
    entries = (records[starts[:-1] + 1] & COUNT).astype(np.int64)
    key = np.full(len(sizes), -1, np.int64)  # records under references have all items
    _find_keys(*table_entries(a["hash_table"]), starts, key)
    shape = np.zeros_like(key)
    width = np.zeros_like(key)
    own = key >= 0
    shape[own] = _shapes_of(a, key[own])
    width[own] = np.where(a["hash_present"] != 0, 0, (a["hash_attrs"] >= 0).sum(axis=1))[shape[own]]
    counts = np.repeat(width + sizes, entries)
    items = int(counts.sum())
    made = Packed(np.empty(len(counts), np.int32), counts, *(np.empty(items, np.int32) for _ in range(3)))
    _write_items(shape, key, width, (a["hash_base"], a["hash_attrs"], a["hash_radix"]), records, starts, made)
    return made


def _shapes_of(arrays: Arrays, key: np.ndarray) -> np.ndarray:
    """The key shapes to which keys belong."""
    order = np.argsort(arrays["hash_base"], kind="stable")
    return np.asarray(order[np.searchsorted(arrays["hash_base"][order], key, "right") - 1])


@kernel
def _find_keys(keys: Int64s, runs: Int64s, starts: Int64s, key: Int64s) -> None:
    """Write the key of each record that a key names directly, not by references."""
    for i in range(keys.size):
        if runs[i] & REFERENCES == 0:
            first = np.searchsorted(starts, runs[i] >> 32)
            for g in range(first, first + (runs[i] & (REFERENCES - 1))):
                key[g] = keys[i]


@kernel
def _write_items(
    shape: Int64s, key: Int64s, width: Int64s, shapes: tuple[Int64s, Int32Matrix, Int64Matrix],
    records: Int32s, starts: Int64s, made: Packed,
) -> None:  # fmt: skip
    base, attrs, radix = shapes
    row, _, attr, low, high = made
    at = entry = 0
    for g in range(shape.size):
        s = shape[g]
        items = starts[g] + HEAD
        rows = items + 3 * records[starts[g]]
        for t in range(rows, starts[g + 1]):
            row[entry] = records[t]
            entry += 1
            rest = key[g] - base[s] if width[g] else 0
            for i in range(width[g]):
                rank = rest // radix[s, i]
                rest -= rank * radix[s, i]
                attr[at], low[at], high[at] = attrs[s, i], rank, rank
                at += 1
            for k in range(items, rows, 3):
                attr[at], low[at], high[at] = records[k], records[k + 1], records[k + 2]
                at += 1


def explain(arrays: Arrays, names: Sequence[str], row: int) -> Iterator[Explained]:
    """The hash keys of a row."""
    a = arrays
    records, _ = split_records(a)
    for record in records_with(records, row):
        keys, lengths = _keys_to(a, records, record)
        shape = int(_shapes_of(a, keys[:1])[0])
        attrs = [attr for attr in a["hash_attrs"][shape].tolist() if attr >= 0]
        facts: dict[str, object] = {
            "keys": len(keys),
            "groups_of_key": int(lengths.max()),
            "checks": int(records[record]),
        }
        if a["hash_present"][shape]:
            ranges: list[list[RankRange]] = [[(attr, 0, int(a["rank_base"][attr, 4])) for attr in attrs]]
            yield Explained("present", attrs, facts, ranges, CANDIDATE_NS)
        else:
            ranges = [_ranges(a, shape, attrs, int(key)) for key in keys]
            yield Explained("hash", attrs, facts, ranges, CANDIDATE_NS)


def _keys_to(a: Arrays, records: np.ndarray, record: int) -> tuple[np.ndarray, np.ndarray]:
    """The keys that lead to a record, directly or by references, and the lengths of their runs."""
    keys, found = table_entries(a["hash_table"])
    refers = found & REFERENCES != 0
    start, length = found >> 32, found & (REFERENCES - 1)
    row = records[record + HEAD + 3 * records[record]]
    references = np.flatnonzero(np.isin(a["hash_targets"][:, 0], [record, ~row]))
    runs = np.flatnonzero(refers == bool(len(references)))
    runs = runs[np.argsort(start[runs])]
    places = references if len(references) else np.array([record])
    own = runs[np.searchsorted(start[runs], places, "right") - 1]
    return keys[own], length[own]


def _ranges(arrays: Arrays, shape: int, attrs: list[int], key: int) -> list[RankRange]:
    """The ranks that a hash key stands for."""
    rest = key - int(arrays["hash_base"][shape])
    ranges: list[RankRange] = []
    for place, attr in enumerate(attrs):
        code, rest = divmod(rest, int(arrays["hash_radix"][shape, place]))
        factor = int(arrays["hash_factor"][shape, place])
        low, high = (-((-code << 32) // factor), -((-(code + 1) << 32) // factor) - 1) if factor else (code, code)
        ranges.append((attr, low, high))
    return ranges
