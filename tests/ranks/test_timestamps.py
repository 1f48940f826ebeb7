"""Timestamps that kernels read, against `Timestamp.parse`."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whimbrel.model.values import Timestamp
from whimbrel.ranks.timestamps import parse_times

FORM = re.compile(
    r"(?:[012]\d{3}|[3-9]\d\d\d|[+-]\d{5,6})-[01]\d-[0-3]\d"
    r"(?:[Tt ][0-2]\d:[0-6]\d(?::[0-6]\d(?:[.,]\d{1,10})?)? ?(?:[Zz]|[+-][0-2]\d(?::?[0-6]\d)?)?)?",
    re.ASCII,
)
USUAL = ["2026-01-31", "2026-01-31T12:00", "2026-01-31 12:00:00.5", "2026-01-31T12:00:00.123456789Z"]
USUAL += ["2026-02-28t23:59:59,1z", "2024-02-29T00:00:00+01:00", "2026-01-31T12:00:00-0130", "2026-01-31T12:00 +23"]


def parsed(texts: list[str]) -> list[int | None]:
    data = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, data)])
    joined = np.frombuffer(b"".join(data) or b"\0", np.uint8)
    out, odd = np.empty(len(texts), np.int64), np.empty(len(texts), np.uint8)
    offsets.flags.writeable = False
    parse_times(offsets, joined, out, odd)
    return [None if is_odd else value for value, is_odd in zip(out.tolist(), odd.tolist(), strict=True)]


def by_python(text: str) -> int | None:
    try:
        return Timestamp.parse(text).nanoseconds
    except ValueError:
        return None


mutated = st.builds(
    lambda text, at, new: text[: at % (len(text) + 1)] + new + text[at % (len(text) + 1) + 1 :],
    st.one_of(st.sampled_from(USUAL), st.from_regex(FORM, fullmatch=True)),
    st.integers(0, 40),
    st.sampled_from(["", "0", "9", ":", "-", "+", "Z", " ", ".", "\xe9", "\u0661"]),
)


@given(st.lists(st.one_of(st.from_regex(FORM, fullmatch=True), mutated, st.text(max_size=30)), max_size=5))
@example(["0000-01-01", "0001-01-01", "9999-12-31T23:59:59.999999999Z", "2262-04-11T23:47:16.854775807Z"])
@example(
    ["1900-02-29", "2000-02-29", "2023-02-29", "2026-04-31", "2026-13-01", "2026-01-31T24:00", "2026-01-31T12:00 "]
)
def test_what_is_read_is_what_python_reads(texts: list[str]) -> None:
    for text, found in zip(texts, parsed(texts), strict=True):
        assert found is None or found == by_python(text), text


@pytest.mark.parametrize("text", USUAL)
def test_usual_forms_are_read_by_the_kernel(text: str) -> None:
    assert parsed([text]) == [by_python(text)] != [None]
