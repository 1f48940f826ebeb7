"""Filter text for many subscriptions at once: columns of strings in, columns of strings out, no loop over rows."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whimbrel.compiled.array_types import Bools, Floats
from whimbrel.lab.workloads.draws import Ints

BLOCK_ROWS = 65_536
"""Subscriptions made at a time: bounds memory and keeps a block's text far below the 2 GiB of one Arrow string array.
The draws follow the blocks, so this value is part of every workload's definition."""


def subscriptions(n: int, filters: Callable[[int], pa.Array]) -> pa.Table:
    """The table (id, filter) of n subscriptions with ids 0..n-1; `filters` makes the text of one block of rows."""
    blocks = [filters(min(BLOCK_ROWS, n - start)) for start in range(0, n, BLOCK_ROWS)]
    return pa.table({"id": np.arange(n, dtype=np.int64), "filter": pa.chunked_array(blocks, pa.string())})


def pick(texts: pa.Array | Sequence[str], index: Ints, held: Bools | None = None) -> pa.Array:
    """`texts[index]` for each row; null where `held` is false."""
    return pa.array(texts, pa.string()).take(pa.array(index, mask=None if held is None else ~held))


def concat(*parts: pa.Array | str) -> pa.Array:
    """Row-wise concatenation of string columns and constants; null where a part is."""
    return pc.binary_join_element_wise(*parts, "")


def conjoin(*columns: pa.Array) -> pa.Array:
    """Row-wise conjunction of predicate columns, leaving out the nulls."""
    return pc.binary_join_element_wise(*columns, " AND ", null_handling="skip")


def conjunctions(predicates: pa.Array, counts: Ints) -> pa.Array:
    """The conjunction of each row: `predicates` holds those of all rows in order, `counts` how many each row has.

    A row without predicates is the filter TRUE.
    """
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, predicates), " AND ")
    return pc.if_else(pa.array(counts == 0), "TRUE", joined)


def interleave(parts: Sequence[tuple[Bools, pa.Array]]) -> pa.Array:
    """One column from several: each part fills, in order, the rows where its mask is true; every row is in one mask."""
    source = np.concatenate([np.flatnonzero(mask) for mask, _ in parts])
    place = np.empty(source.size, dtype=np.int64)
    place[source] = np.arange(source.size)
    return pa.concat_arrays([texts for _, texts in parts]).take(pa.array(place))


def integer_text(values: Ints) -> pa.Array:
    """The digits of each integer."""
    return pa.array(values).cast(pa.string())


def float_text(values: Floats) -> pa.Array:
    """`repr` of each float: the shortest text that reads back as the same binary64.

    Arrow prints the same digits in a third of the time and differs only in the exponent and in whole numbers, so these
    few go through `repr` itself.
    """
    texts = pa.array(values).cast(pa.string())
    unusual = ~((np.abs(values) >= 1e-4) & (np.abs(values) < 1e6)) | (values == np.rint(values))
    return pc.replace_with_mask(texts, pa.array(unusual), pa.array(map(repr, values[unusual].tolist()), pa.string()))
