"""Replaces white space beyond ASCII between tokens by plain spaces, before texts are scanned."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int64s
from whimbrel.compiled.jit import helper, kernel
from whimbrel.language.sql.token_kernels import BACKTICK, DOUBLE_QUOTE, QUOTE, SPACE

FIRST_WIDE = 0xC2
"""The lowest byte that begins a character beyond ASCII."""


@helper
def _wide_space(data: Bytes, at: int, end: int) -> int:  # pragma: no cover
    """The number of bytes of the white space beyond ASCII at `at`, as Unicode and Python define it; 0 if none.

    These are U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F and U+3000.
    """
    one = data[at]
    two = data[at + 1] if at + 1 < end else np.uint8(0)
    if one == 0xC2:
        return 2 if two in (0x85, 0xA0) else 0
    three = data[at + 2] if at + 2 < end else np.uint8(0)
    is_space = (one == 0xE1 and two == 0x9A and three == 0x80) or (one == 0xE3 and two == 0x80 and three == 0x80)
    if one == 0xE2:
        is_space = two == 0x80 and (three <= 0x8A or three in (0xA8, 0xA9, 0xAF)) and three >= 0x80
        is_space |= two == 0x81 and three == 0x9F
    return 3 if is_space else 0


@kernel
def with_plain_spaces(offsets: Int64s, data: Bytes) -> np.ndarray:  # pragma: no cover
    """The bytes of texts, with spaces for every byte of white space beyond ASCII that is not quoted."""
    out = data.copy()
    for row in range(offsets.size - 1):
        at, end = offsets[row], offsets[row + 1]
        quote = np.uint8(0)
        while at < end:
            byte = data[at]
            size = 1
            if quote != 0:
                quote = np.uint8(0) if byte == quote else quote
            elif byte in (QUOTE, DOUBLE_QUOTE, BACKTICK):
                quote = byte
            elif byte >= FIRST_WIDE:
                wide = _wide_space(data, at, end)
                for place in range(at, at + wide):
                    out[place] = SPACE
                size = max(1, wide)
            at += size
    return out
