"""The states after updates, column by column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from whimbrel.publications.diff import Rows

Flags = NDArray[np.bool_]


def blanked(own: pa.Array, blank: Flags) -> pa.Array:
    """The column with null where it is blank."""
    if not blank.any():
        return own
    return own.take(pa.array(np.arange(len(own)), mask=blank))


def merged(stored: pa.ChunkedArray, own: pa.Array, blank: Flags, first: Flags, previous: Rows) -> pa.Array:
    """What an update does not say is as it was: as the updates before it say, or as the stored state does.

    Updates are by publication and in order; `first` are those with a stored state, or -1, as `previous`.
    """
    says = blank | own.is_valid().to_numpy(zero_copy_only=False)
    source = np.maximum.accumulate(np.where(says | first, np.arange(len(own)), 0))
    from_stored = ~says[source]
    rows = previous[source[from_stored]]
    taken = stored.take(pa.array(rows, mask=rows < 0))
    taken = taken.chunk(0) if taken.num_chunks == 1 else taken.combine_chunks()
    nothing = blank[source]
    source[from_stored] = len(own) + np.arange(len(rows))
    return pa.concat_arrays([own, taken]).take(pa.array(source, mask=nothing))


def removed(unset: pa.Array, name: str) -> Flags:
    """Which updates remove the attribute of this name."""
    out = np.zeros(len(unset), np.bool_)
    parents = pc.list_parent_indices(unset).to_numpy(zero_copy_only=False)
    out[parents[pc.fill_null(pc.equal(pc.list_flatten(unset), name), False).to_numpy(zero_copy_only=False)]] = True
    return out
