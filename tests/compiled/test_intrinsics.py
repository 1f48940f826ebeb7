"""Instructions of the processor: what they do with AVX2, and without it."""

from __future__ import annotations

import random
from typing import Any

import numba
import numpy as np
import pytest

from whimbrel import Filter, Index
from whimbrel.compiled import intrinsics


def _keeper() -> Any:
    keep_inside = intrinsics.keep_inside

    @numba.njit
    def keep(source, low, high, value, target):  # type: ignore[no-untyped-def]
        n = np.int64(0)
        for at in range(0, source.size, 8):
            n += keep_inside(source, low, high, np.int64(at), np.int32(value), target, n)  # type: ignore[call-arg]
        return n

    return keep


@pytest.mark.parametrize("has_avx2", [True, False])
def test_what_is_inside_stands_side_by_side(has_avx2: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_avx2:
        monkeypatch.setattr(intrinsics, "_has_avx2", lambda context: False)
    keep = _keeper()
    draw = np.random.default_rng(4)
    low, high, source = (draw.integers(-9, 9, 8_000).astype(np.int32) for _ in range(3))
    target = np.zeros(8_000, np.int32)
    for value in (-9, 0, 3, 8, 9, -(1 << 31), (1 << 31) - 1):
        inside = (low <= value) & (value <= high)
        count = keep(source, low, high, value, target)
        assert count == inside.sum() and target[:count].tolist() == source[inside].tolist()


def test_runs_of_every_length_with_a_second_range() -> None:
    draw = random.Random(8)
    texts = [f"a <= {n} AND b BETWEEN {low} AND {low + 40}" for n in range(60) for low in [draw.randrange(60)]]
    texts += [f"a >= {n} AND b >= {draw.randrange(99)}" for n in range(50)]
    index = Index()
    index.add_many(list(enumerate(texts)))
    index.merge()
    assert index.stats()["keys"]["sorted"] == len(texts)  # type: ignore[index]
    filters = [Filter.parse(text) for text in texts]
    for a in range(-1, 62):
        event = {"a": a, "b": draw.choice([draw.randrange(120), [3, 90], None])}
        assert index.match(event) == [n for n, one in enumerate(filters) if one.matches(event)]
