"""A narrower way from the JVM to a worker: many columns of one type travel as one column of arrays.

Spark hands rows over cell by cell, and a cell costs less inside of an array than in a column of its own. Here the
arrays, which all have the same length, become columns again, by one transposition for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

FEWEST = 16
"""Columns of a type that are packed; fewer gain nothing."""

_PACKED = ("smallint", "int", "bigint", "float", "double", "date", "string")


def pack(kinds: Sequence[DataType]) -> tuple[tuple[int, ...], ...]:
    """Which columns, by number, travel together."""
    by_kind: dict[str, list[int]] = {}
    for number, kind in enumerate(kinds):
        by_kind.setdefault(kind.simpleString(), []).append(number)
    return tuple(tuple(found) for kind, found in by_kind.items() if kind in _PACKED and len(found) >= FEWEST)


def unpack(packed: pa.ListArray, width: int) -> list[pa.Array]:
    """The columns, `width` of them, of which every array has one cell each."""
    rows, values = len(packed), packed.flatten()
    if pa.types.is_string(values.type):
        turned = values.take(pa.array(np.arange(rows * width).reshape(rows, width).T.reshape(-1)))
        return [turned.slice(number * rows, rows) for number in range(width)]
    size = values.type.bit_width // 8
    cells = np.frombuffer(values.buffers()[1], f"u{size}", rows * width, values.offset * size).reshape(rows, width)
    columns = np.ascontiguousarray(cells.T)
    bitmaps: list[pa.Buffer | None] = [None] * width
    if values.null_count:
        bits = np.unpackbits(np.frombuffer(values.buffers()[0], np.uint8), bitorder="little")
        valid = bits[values.offset : values.offset + rows * width].reshape(rows, width)
        packed_bits = np.ascontiguousarray(np.packbits(valid.T, axis=1, bitorder="little"))
        bitmaps = [pa.py_buffer(bitmap) for bitmap in packed_bits]
    return [
        pa.Array.from_buffers(values.type, rows, [bitmap, pa.py_buffer(column)])
        for bitmap, column in zip(bitmaps, columns, strict=True)
    ]
