"""Literal tokens of one slot, as SQL writes them, converted to a column in bulk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whimbrel.language.columnar.columns import EXACT_INTEGERS, Numbers, exact
from whimbrel.language.sql.lexer import number_value
from whimbrel.model.values import Timestamp, canonical_number

_SATURATED = (1 << 63) - 1


def strings_column(strings: Sequence[str], shared: dict[str, str]) -> list[str]:
    """The strings, with one object for equal ones: a million filters repeat a few values."""
    share = shared.setdefault
    return [share(text, text) for text in strings]


def timestamps_column(strings: Sequence[str]) -> Numbers:
    """The nanoseconds of timestamps; ValueError if a string is not one."""
    moments = {text: Timestamp.parse(text).nanoseconds for text in set(strings)}
    return exact([moments[text] for text in strings])


def numbers_column(raws: Sequence[str], negative: bool) -> Numbers:
    """The numbers, read in the fastest way that is exact; LimitExceeded if one is too long."""
    line = " ".join(raws)
    if line.replace(" ", "").isdigit():
        integers = np.fromstring(line, dtype=np.int64, sep=" ")
        if integers.max() < _SATURATED:  # where a number too large ends up
            return -integers if negative else integers
    floats = np.fromstring(line, dtype=np.float64, sep=" ")
    if (np.abs(floats) < EXACT_INTEGERS).all():
        floats = 0.0 - floats if negative else floats
        return floats.astype(np.int64) if (floats == np.floor(floats)).all() else floats
    values = [number_value(raw) for raw in raws]
    return exact([canonical_number(-value) for value in values] if negative else values)
