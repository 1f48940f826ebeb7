"""Ids as callers hand them in - Python values, NumPy, Arrow - checked and brought to the form the id table stores."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from whimbrel.engine.ids.id_keys import IntKeys, StringKeys
from whimbrel.model.errors import IdKindError
from whimbrel.model.subscription import Id, id_kind
from whimbrel.ranks.arrow import large_strings, values_of

if TYPE_CHECKING:
    import pyarrow as pa

Batch = NDArray[np.int64] | Any  # Any stands for pa.LargeStringArray, which has no types


def read_batch(ids: NDArray[Any] | pa.Array | pa.ChunkedArray | Iterable[Id], kind: str | None) -> Batch:
    """Many ids as an int64 array or a pa.LargeStringArray; IdKindError names the first that is not of `kind`."""
    import pyarrow as pa

    if isinstance(ids, (pa.Array, pa.ChunkedArray)):
        ids = _from_arrow(ids)
    if isinstance(ids, np.ndarray):
        signed = ids.dtype.kind == "i" or (ids.dtype.kind == "u" and ids.itemsize < 8)
        ids = np.ascontiguousarray(ids, np.int64) if signed else ids.tolist()
    if not isinstance(ids, (np.ndarray, pa.Array)):
        return _from_list(list(ids), kind)
    if len(ids) and kind not in (None, id_kind(item(ids, 0))):
        raise IdKindError(item(ids, 0), str(kind))
    return ids


def item(batch: Batch, number: int) -> Id:
    """One id of a batch as a Python value."""
    found: Id = batch[number].item() if isinstance(batch, np.ndarray) else batch[number].as_py()
    return found


def _from_arrow(ids: pa.Array | pa.ChunkedArray) -> NDArray[Any] | pa.LargeStringArray | list[Any]:
    """Integers and strings by their buffers; anything else, nulls included, as a list, to be refused one by one."""
    import pyarrow as pa

    if isinstance(ids, pa.ChunkedArray):
        ids = pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], ids.type)
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if ids.null_count == 0 and pa.types.is_integer(ids.type):
        return values_of(ids)
    if ids.null_count == 0 and (pa.types.is_string(ids.type) or pa.types.is_large_string(ids.type)):
        try:
            ids.validate(full=True)
        except pa.ArrowInvalid:  # not UTF-8
            return [_decoded(id) for id in ids.cast(pa.large_binary()).to_pylist()]
        return ids.cast(pa.large_string())
    return list(ids.to_pylist())


def _decoded(id: bytes) -> str | bytes:
    try:
        return id.decode()
    except UnicodeDecodeError:
        return id


def _from_list(ids: list[Any], kind: str | None) -> Batch:
    import pyarrow as pa

    kind = kind or (id_kind(ids[0]) if ids else "int64")
    exact = int if kind == "int64" else str
    try:
        if not set(map(type, ids)) - {exact}:
            return np.array(ids, np.int64) if exact is int else large_strings(ids)
    except (OverflowError, UnicodeEncodeError):
        pass  # the slow way names the one that is refused
    keys = IntKeys() if exact is int else StringKeys()
    forms = [keys.stored_form(id) for id in ids]
    return np.array(forms, np.int64) if exact is int else pa.array(forms, pa.large_binary()).cast(pa.large_string())
