"""Updates on their way to their buckets: all rows of a task for one bucket travel as one cell of bytes.

A stateful operator of Spark converts each row in Python, at some microseconds a row. A cell that holds a batch of Arrow
costs that once for a thousand rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whimbrel.pipeline.spark.transfer import ColumnTransfer

ROWS_AT_ONCE = 1 << 18
"""Rows that a task collects before it writes cells."""
BYTES_AT_ONCE = 1 << 27


def bucket_numbers(buckets: int) -> NDArray[np.int32]:
    """The numbers that buckets have in Spark, chosen so that all partitions get the same number of buckets.

    Spark sends a number to the partition that its Murmur3 hash gives. Here the hash of bucket b's number is b modulo
    `buckets`, so shares are equal for every number of partitions that divides `buckets`.
    """
    out = np.full(buckets, -1, np.int32)
    first = 0
    while (out < 0).any():
        numbers = np.arange(first, first + 4 * buckets + 64, dtype=np.int32)
        homes, places = np.unique(_murmur3(numbers) % buckets, return_index=True)
        free = out[homes] < 0
        out[homes[free]] = numbers[places[free]]
        first += len(numbers)
    return out


@dataclass(frozen=True, slots=True)
class CellWriter:
    """Sent to the workers: rows in, one cell of updates for each bucket out.

    The columns of a row are bucket, key, sequence, deleted, then time and unset where `has_time` and `has_unset`, then
    the attributes. A cell has the columns of `UpdateFormat.updates`.
    """

    numbers: NDArray[np.int32]
    transfer: ColumnTransfer
    schema: pa.Schema
    has_time: bool
    has_unset: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            full = sum(each.nbytes for each in held) >= BYTES_AT_ONCE
            if full or sum(each.num_rows for each in held) >= ROWS_AT_ONCE:
                yield self._cells(held)
                held = []
        if held:
            yield self._cells(held)

    def _cells(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches(max_chunksize=None)
        if not rows:
            return pa.record_batch({"bucket": pa.array([], pa.int32()), "content": pa.array([], pa.binary())})
        (whole,) = rows
        buckets = np.asarray(whole.column(0))
        updates = self._updates(whole).take(pa.array(np.argsort(buckets, kind="stable")))
        counts = np.bincount(buckets, minlength=len(self.numbers))
        ends = np.cumsum(counts)
        present = np.flatnonzero(counts)
        cells = [updates.slice(ends[b] - counts[b], counts[b]).serialize().to_pybytes() for b in present]
        return pa.record_batch({"bucket": pa.array(self.numbers[present]), "content": pa.array(cells, pa.binary())})

    def _updates(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        key, sequence, deleted, *others = rows.columns[1:]
        count = rows.num_rows
        time = others.pop(0) if self.has_time else pa.nulls(count, pa.float64())
        unset = others.pop(0) if self.has_unset else pa.nulls(count, pa.list_(pa.string()))
        attributes = self.transfer.table(others, count).columns[:-1]
        columns = [key, sequence, deleted, time, unset, *(column.combine_chunks() for column in attributes)]
        return pa.RecordBatch.from_arrays(
            [c.cast(f.type) for c, f in zip(columns, self.schema, strict=True)], schema=self.schema
        )


def read_cells(cells: Iterable[bytes], schema: pa.Schema) -> pa.Table:
    """The updates of cells, as one table."""
    return pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(cell), schema) for cell in cells], schema)


def _murmur3(numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """The 32-bit Murmur3 hashes of integers, as Spark computes them."""
    k = numbers.astype(np.uint32) * np.uint32(0xCC9E2D51)
    k = (k << np.uint32(15) | k >> np.uint32(17)) * np.uint32(0x1B873593)
    h = np.uint32(42) ^ k  # the seed of Spark's own partitioning by hash
    h = (h << np.uint32(13) | h >> np.uint32(19)) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(4)
    h = (h ^ h >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    h = (h ^ h >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (h ^ h >> np.uint32(16)).view(np.int32)
