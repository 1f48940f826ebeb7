"""Literal tokens of one slot as a column, converted in bulk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from whimbrel.language.sql.lexer import number_value
from whimbrel.language.sql.words import Words
from whimbrel.model.values import Timestamp, canonical_number

Int64s: TypeAlias = npt.NDArray[np.int64]
Float64s: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = Int64s | Float64s | list[int | float]
Column: TypeAlias = Numbers | list[str] | Words

_EXACT = 1 << 53
_SATURATED = (1 << 63) - 1


def strings_column(strings: Sequence[str], shared: dict[str, str]) -> list[str]:
    """The strings, equal ones as one object: a million filters repeat a few values."""
    share = shared.setdefault
    return [share(text, text) for text in strings]


def timestamps_column(strings: Sequence[str]) -> Numbers:
    """The nanoseconds of timestamps; ValueError if a string is not one."""
    moments = {text: Timestamp.parse(text).nanoseconds for text in set(strings)}
    return exact([moments[text] for text in strings])


def numbers_column(raws: Sequence[str], negative: bool) -> Numbers:
    """The numbers, in the fastest way that is exact; LimitExceeded if one is too long."""
    line = " ".join(raws)
    if line.replace(" ", "").isdigit():
        integers = np.fromstring(line, dtype=np.int64, sep=" ")
        if integers.max() < _SATURATED:  # where a number too large ends up
            return -integers if negative else integers
    floats = np.fromstring(line, dtype=np.float64, sep=" ")
    if (np.abs(floats) < _EXACT).all():
        floats = 0.0 - floats if negative else floats
        return floats.astype(np.int64) if (floats == np.floor(floats)).all() else floats
    values = [number_value(raw) for raw in raws]
    return exact([canonical_number(-value) for value in values] if negative else values)


def exact(values: Sequence[int | float]) -> Numbers:
    """Canonical numbers as int64 if all are, else as float64 if all are, else as they are."""
    if all(isinstance(value, int) and -(1 << 63) <= value < 1 << 63 for value in values):
        return np.array(values, dtype=np.int64)
    if all(isinstance(value, float) or -_EXACT <= value <= _EXACT for value in values):
        return np.array(values, dtype=np.float64)
    return list(values)


def joined(parts: Sequence[Column]) -> Column:
    """The parts of a column as one column."""
    if len(parts) == 1:
        return parts[0]
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts) and len({array.dtype for array in arrays}) == 1:
        column: Int64s = np.concatenate(arrays)
        return column
    items: list[Any] = [item for part in parts for item in (part.tolist() if isinstance(part, np.ndarray) else part)]
    return items if isinstance(items[0], str) else exact([canonical_number(item) for item in items])
