"""The dictionary of a segment: the sorted constants of every attribute, laid out as flat arrays.

`build_dictionary` makes it from constants in any order, with repetitions; `ranks_of_*` give the ranks of constants
that are in it, which is what compiling filters needs. Both work on whole arrays: a segment has millions of constants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from typing import TypeAlias, cast

import numpy as np
import pyarrow as pa

from whimbrel.compiled.views import read_only
from whimbrel.ranks.arrow import large_strings, numbers
from whimbrel.ranks.distinct import distinct
from whimbrel.ranks.lookup import EXACT, EXACT_FLOAT, FLOATS, INTEGERS, NO_NUMBERS, Lookup
from whimbrel.ranks.string_kernels import fill_hash_table, string_words

Arrays: TypeAlias = dict[str, np.ndarray]
Meta: TypeAlias = dict[str, object]
Numbers: TypeAlias = np.ndarray | Sequence[int | float]
Strings: TypeAlias = pa.Array | pa.ChunkedArray | Sequence[str]

_FEW = 256
_SAMPLE = 2_048
_MORE = 8
"""The count byte of a word of a string that goes on after it: see `string_words`."""


def build_dictionary(
    constants: Mapping[int, Mapping[str, object]], attributes: list[str], ordered: Collection[int]
) -> tuple[Arrays, Meta]:
    """The arrays and meta of the constants: per attribute "numbers", "strings" and "times", each optional."""
    count = len(attributes)
    kinds = np.zeros(count, np.uint8)
    sizes = np.ones((count, 5), np.int64)
    sizes[:, 1] = 5  # the boolean block
    numbers: list[np.ndarray] = []
    times: list[np.ndarray] = []
    offsets: list[np.ndarray] = []
    data: list[np.ndarray] = []
    tables: list[np.ndarray] = []
    exact_numbers: dict[str, list[str]] = {}
    exact_times: dict[str, list[int]] = {}
    for attr in range(count):
        own = constants.get(attr, {})
        kinds[attr], its_numbers = _sort_numbers(cast(Numbers | None, own.get("numbers")))
        its_times = _sort_times(cast(np.ndarray | Sequence[int] | None, own.get("times")))
        its_offsets, its_data = _sort_strings(cast(Strings | None, own.get("strings")))
        sizes[attr, 2:] += [2 * len(its_numbers), 2 * (len(its_offsets) - 1), 2 * len(its_times)]
        if isinstance(its_numbers, list):
            exact_numbers[str(attr)] = [repr(number) for number in its_numbers]
            its_numbers = np.empty(0, np.int64)
        if isinstance(its_times, list):
            exact_times[str(attr)] = its_times
            its_times = np.empty(0, np.int64)
        numbers.append(its_numbers.view(np.int64))
        times.append(its_times)
        offsets.append(its_offsets)
        data.append(its_data)
        tables.append(_hash_table(its_offsets, its_data))
    bases = np.cumsum(sizes, axis=1)
    if bases.max(initial=0) > np.iinfo(np.int32).max:
        raise OverflowError("Expected fewer than 2**30 constants of an attribute in one segment")
    in_order = set(ordered)
    arrays = {
        "number_kind": kinds,
        "number_start": _starts(map(len, numbers)),
        "numbers": _joined(numbers, np.int64),
        "string_start": _starts(len(one) - 1 for one in offsets),
        "string_offset": _joined([np.zeros(1, np.int64), *_shifted(offsets, data)], np.int64),
        "string_bytes": _joined(data, np.uint8),
        "string_hash_start": _starts(map(len, tables)),
        "string_hash": _joined(tables, np.int32),
        "time_start": _starts(map(len, times)),
        "times": _joined(times, np.int64),
        "ordered_strings": np.array([attr in in_order for attr in range(count)], np.uint8),
        "rank_base": bases.astype(np.int32),
    }
    return arrays, {"attributes": list(attributes), "exact_numbers": exact_numbers, "exact_times": exact_times}


def ranks_of_numbers(
    arrays: Mapping[str, np.ndarray], meta: Mapping[str, object], attr: int, values: Numbers
) -> np.ndarray:
    """The int32 ranks of numbers that are constants of the attribute; ValueError if one is not."""
    lookup = Lookup(arrays, meta, attr)
    ranks = np.empty(len(values), np.int32)
    if lookup.number_kind == EXACT:
        ranks[:] = [lookup.rank_number(v) for v in (values.tolist() if isinstance(values, np.ndarray) else values)]
    elif lookup.number_kind == INTEGERS:
        integers = np.asarray(values, np.int64)
        if _are_few(values, lookup.number_array):
            ranks[:] = _found(integers, lookup.number_array, lookup.number_base)
        else:
            lookup.rank_integers(integers, ranks)
    else:
        floats = np.asarray(values, np.float64)
        if np.array_equal(floats, lookup.number_array):
            return np.arange(lookup.number_base + 1, lookup.number_base + 2 * len(ranks), 2, dtype=np.int32)
        if _are_few(values, lookup.number_array):
            ranks[:] = _found(floats, lookup.number_array, lookup.number_base)
        else:
            lookup.rank_floats(floats, 0, ranks)
    return _checked(ranks, lookup.number_base, lookup)


def ranks_of_strings(
    arrays: Mapping[str, np.ndarray], meta: Mapping[str, object], attr: int, values: Strings
) -> np.ndarray:
    """The int32 ranks of strings that are constants of the attribute; ValueError if one is not."""
    lookup = Lookup(arrays, meta, attr)
    offsets, data = string_buffers(_large_strings(values))
    ranks = np.empty(len(offsets) - 1, np.int32)
    lookup.rank_strings(offsets, data, ranks)
    return _checked(ranks, lookup.string_base, lookup)


def ranks_of_times(
    arrays: Mapping[str, np.ndarray], meta: Mapping[str, object], attr: int, values: np.ndarray | Sequence[int]
) -> np.ndarray:
    """The int32 ranks of timestamps in nanoseconds that are constants of the attribute; ValueError if one is not."""
    lookup = Lookup(arrays, meta, attr)
    ranks = np.empty(len(values), np.int32)
    if str(attr) in cast(Mapping[str, object], meta.get("exact_times") or {}):
        ranks[:] = [lookup.rank_time(int(value)) for value in values]
    elif _are_few(values, lookup.time_array):
        ranks[:] = _found(np.asarray(values, np.int64), lookup.time_array, lookup.time_base)
    else:
        lookup.rank_times(np.asarray(values, np.int64), ranks)
    return _checked(ranks, lookup.time_base, lookup)


def _are_few(values: Sized, constants: np.ndarray) -> bool:
    """Whether buckets for the constants would cost more than they save."""
    return 4 * len(values) < len(constants)


def _found(values: np.ndarray, constants: np.ndarray, base: int) -> np.ndarray:
    places = np.searchsorted(constants, values)
    equal = constants[np.minimum(places, len(constants) - 1)] == values
    return np.asarray(base + 2 * places + equal)


def _checked(ranks: np.ndarray, base: int, lookup: Lookup) -> np.ndarray:
    if len(ranks) and not ((ranks - base) & 1).all():
        raise ValueError(f"Expected constants of attribute {lookup.name!r}, but got other values too")
    return ranks


def _sort_numbers(values: Numbers | None) -> tuple[int, np.ndarray | list[int | float]]:
    """How to keep the numbers, and their sorted distinct values."""
    if values is None or len(values) == 0:
        return NO_NUMBERS, np.empty(0, np.int64)
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "f":
            integers, floats = np.empty(0, np.int64), values.astype(np.float64, copy=False)
        else:
            integers, floats = values.astype(np.int64, copy=False), np.empty(0)
    else:
        try:
            integers = np.array([v for v in values if not isinstance(v, float)], np.int64)
        except OverflowError:
            return _exactly(values)
        floats = np.array([v for v in values if isinstance(v, float)], np.float64)
    if not len(floats):
        return INTEGERS, distinct(integers)
    if _are_whole(floats[:_FEW]) and _are_whole(floats):
        return INTEGERS, distinct(np.concatenate([integers, floats.astype(np.int64)]))
    if len(integers) and max(-int(integers.min()), int(integers.max())) > EXACT_FLOAT:
        return _exactly([*integers.tolist(), *floats.tolist()])
    found = distinct(np.concatenate([integers.astype(np.float64), floats]) if len(integers) else floats)
    zero = int(np.searchsorted(found, 0.0))
    if zero < len(found) and found[zero] == 0.0 and np.signbit(found[zero]):
        found = found + 0.0  # no negative zero
    return FLOATS, found


def _are_whole(floats: np.ndarray) -> bool:
    return bool(((np.floor(floats) == floats) & (np.abs(floats) < 2.0**63)).all())


def _exactly(values: Sequence[int | float]) -> tuple[int, np.ndarray | list[int | float]]:
    """Python's numbers, unless a sorted array of floats says the same."""
    found = sorted(set(values))
    try:
        floats = np.array([float(value) for value in found])
    except OverflowError:
        return EXACT, found
    if floats.tolist() == found:
        return FLOATS, floats + 0.0
    return EXACT, found


def _sort_times(values: np.ndarray | Sequence[int] | None) -> np.ndarray | list[int]:
    if values is None or len(values) == 0:
        return np.empty(0, np.int64)
    try:
        return distinct(np.asarray(values, np.int64))
    except OverflowError:
        return sorted({int(value) for value in values})


def _sort_strings(values: Strings | None) -> tuple[np.ndarray, np.ndarray]:
    """The offsets and bytes of the sorted distinct strings."""
    if values is None or len(values) == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    if len(values) <= _FEW:
        listed = values if isinstance(values, Sequence) else values.to_pylist()
        texts = [text.encode() for text in sorted(set(listed) - {None})]
        return _starts(map(len, texts)), np.frombuffer(b"".join(texts), np.uint8)
    array = _large_strings(values)
    if len(array) > _SAMPLE and 2 * len(array.slice(0, _SAMPLE).unique()) < _SAMPLE:
        array = array.unique()
    offsets, data = string_buffers(array)
    offsets, data = string_buffers(array.take(numbers(sorted_distinct(read_only(offsets), read_only(data)))))
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def sorted_distinct(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """The rows of the distinct strings in order, seven bytes at a time; only ties look at the next seven."""
    order = np.arange(len(offsets) - 1)
    words = np.empty(len(order), np.uint64)
    string_words(offsets, data, read_only(order), 0, words)
    order = np.argsort(words)
    words = words[order]
    same = np.zeros(len(order), bool)
    same[1:] = words[1:] == words[:-1]
    places = np.arange(len(order))
    tied = same & ((words & np.uint64(0xFF)) == _MORE)
    depth = 0
    while tied.any():
        depth += 7
        inside = tied.copy()
        inside[:-1] |= tied[1:]
        places, begins = places[inside], ~tied[inside]
        rows = order[places]
        words = np.empty(len(rows), np.uint64)
        string_words(offsets, data, read_only(rows), depth, words)
        by = _sort_within(words, begins)
        order[places], words = rows[by], words[by]
        equal = np.zeros(len(rows), bool)
        equal[1:] = (words[1:] == words[:-1]) & ~begins[1:]
        same[places] = equal
        tied = equal & ((words & np.uint64(0xFF)) == _MORE)
    return order[~same]


def _sort_within(words: np.ndarray, begins: np.ndarray) -> np.ndarray:
    """The order of the words within groups that begin where `begins` says."""
    starts = np.flatnonzero(begins)
    if len(starts) * 256 > len(words):
        return np.lexsort((words, np.cumsum(begins)))
    by = np.empty(len(words), np.int64)
    for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
        by[start:end] = start + np.argsort(words[start:end])
    return by


def _hash_table(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    count = len(offsets) - 1
    table = np.zeros(1 << (2 * count - 1).bit_length() if count else 0, np.int32)
    if count:
        fill_hash_table(read_only(offsets), read_only(data), 0, count, table)
    return table


def _large_strings(values: Strings) -> pa.Array:
    """One array of strings with 64-bit offsets and no nulls."""
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        return large_strings(values)
    if values.type != pa.large_string():
        values = values.cast(pa.large_string())
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.num_chunks else large_strings([])
    return values.drop_null() if values.null_count else values


def string_buffers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The offsets (from the first row of a slice on) and the bytes of strings with 64-bit offsets."""
    _, offsets, data = array.buffers()
    if not len(array) or offsets is None:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    found = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    return found, np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)


def _starts(sizes: Iterable[int]) -> np.ndarray:
    return np.cumsum([0, *sizes], dtype=np.int64)


def _joined(parts: list[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts).astype(dtype, copy=False) if parts else np.empty(0, dtype)


def _shifted(offsets: list[np.ndarray], data: list[np.ndarray]) -> Iterable[np.ndarray]:
    """The offsets of each attribute's strings in the bytes of all."""
    for own, first in zip(offsets, _starts(map(len, data))[:-1], strict=True):
        yield own[1:] + first
