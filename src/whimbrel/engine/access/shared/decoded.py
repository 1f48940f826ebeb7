"""What every key gives when its arrays are read back: conjunctions, for merges, and facts, for `plan`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RankRange = tuple[int, int, int]
"""An attribute, and the first and last of its ranks with which an event reaches a conjunction."""


class Packed(NamedTuple):
    """Conjunctions in the ranks of their segment."""

    row: np.ndarray  # int32[m]: the row of each conjunction, with its flags
    counts: np.ndarray  # int64[m]: how many items it has
    attr: np.ndarray  # int32[k]: the attribute of each item, with its kind
    low: np.ndarray  # int32[k]: its first rank, or the number of its set
    high: np.ndarray  # int32[k]: its last rank, or the mask of its set


class Explained(NamedTuple):
    """How one conjunction is filed."""

    key: str  # the name of the key: hash, present, sorted, bitmap, signature
    attrs: list[int]  # the attributes of the key
    facts: dict[str, object]  # what else `plan` says of it
    ranges: list[list[RankRange]]  # an event reaches it that has a rank in each range of one of these lists
    candidate_ns: float  # what it costs an event that reaches it
