"""The registry: the arrays that keys declare are those that a segment stores, and every conjunction has one key."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from whimbrel import Index
from whimbrel.engine.access.decoding import packed_parts
from whimbrel.engine.access.registry import GROUPS, KEYS, KINDS
from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.shared.packing import ROW_MASK

FILTERS = [
    *(f"shop = {n} AND price < {n % 90}" for n in range(600)),
    *(f"price > {n}" for n in range(300)),
    *(f"price BETWEEN {n % 90} AND {n % 90 + 5} AND size BETWEEN {n % 70} AND {n % 70 + 30}" for n in range(1_500)),
    *(f"kind IN ({n % 40}, {n % 41}) AND price <= {n}" for n in range(400)),
    *(f"color = {n % 3} AND flag = {n % 2} AND level = {n % 4}" for n in range(50)),
]


@pytest.fixture(scope="module")
def segment() -> Segment:
    index = Index()
    index.add_many(enumerate(FILTERS))
    index.merge()
    return index._subscriptions.segments.snapshot.segments[0]


def test_kernels_read_what_keys_declare(segment: Segment) -> None:
    segment.open()
    assert [type(arrays) for arrays in segment.kernel_arrays] == [group.tuple_class for group in GROUPS]
    assert len(GROUPS) == len(KEYS) + 1
    for group, arrays in zip(GROUPS, segment.kernel_arrays, strict=True):
        for array, dtype, dims in zip(arrays, group.kind.dtypes, group.kind.dims, strict=True):
            assert array.dtype == np.dtype(dtype) and array.ndim == dims
    names = [name for group in GROUPS for name in group.fields.values()]
    assert max(Counter(names).values()) == 1, "two keys have an array of the same name"


def test_keys_give_back_every_conjunction_once(segment: Segment) -> None:
    rows = np.concatenate([part.row & ROW_MASK for part in packed_parts(segment.arrays)])
    assert sorted(rows.tolist()) == list(range(len(FILTERS)))
    assert sum(segment.meta.keys.values()) == segment.meta.conjunctions == len(FILTERS)
    assert list(segment.meta.keys) == list(KINDS)


def test_every_conjunction_is_explained_by_one_key(segment: Segment) -> None:
    for row in range(0, len(FILTERS), 97):
        told = [one for key in KEYS for one in key.explain(segment.arrays, segment.attributes, row)]
        assert len(told) == 1 and told[0].key in KINDS and told[0].candidate_ns > 0
