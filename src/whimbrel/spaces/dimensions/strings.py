"""Labels of strings: the cuts of a dimension of strings, 64-bit integers in the order of the strings seen so far.

A new cut gets a label in the gap between its neighbours, or one stride beyond the last. Of the neighbours it is near
the one that begins more like it: so strings that come in order, up or down, use up a gap step by step; with labels in
the middle they would halve it each time. When a gap is used up, all cuts get new labels, and stored labels must be
replaced: `relabelings` counts these events, and `renamed` is called with the old and the new labels.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from whimbrel.compiled.array_types import Int64s
from whimbrel.model.intervals import Cut
from whimbrel.spaces.dimensions.interval import Interval
from whimbrel.spaces.index.region_arrays import HIGH, LOW

_STRIDE = 1 << 32
"""The distance of new labels at either end of the list."""
_STEP = 1 << 16
"""The distance of a new label from the neighbour that it is near, if the gap is wide enough."""
_LIMIT = 1 << 61
_FEW = 1_024
"""`prune` is not worth its time for fewer cuts."""


class Labels:
    """Cuts in order, each with its label."""

    def __init__(self) -> None:
        self._cuts: list[Cut] = []
        self._codes: list[int] = []
        self.cut_of: dict[int, Cut] = {}
        """Cuts by label. It only grows, and is replaced when labels change: an old dict still decodes old labels."""
        self._code_of: dict[Cut, int] = {}
        self.relabelings = 0
        """How often all labels were replaced."""
        self._kept = 0
        self.renamed: Callable[[Int64s, Int64s], None] = lambda old, new: None
        """Called with the old and the new labels, in the same order."""

    def of(self, cut: Cut) -> int:
        """The label of a cut; a new cut gets one. Costs a binary search and an insertion into a list."""
        code = self._code_of.get(cut)
        return self._add(cut) if code is None else code

    def dump(self) -> list[tuple[Cut, int]]:
        """All cuts with their labels."""
        return list(zip(self._cuts, self._codes, strict=True))

    def load(self, pairs: Iterable[tuple[Cut, int]]) -> None:
        """Add cuts and labels that `dump` returned."""
        for cut, code in pairs:
            self._cuts.append(cut)
            self._codes.append(code)
            self._code_of[cut], self.cut_of[code] = code, cut

    def _add(self, cut: Cut) -> int:
        at = bisect_left(self._cuts, cut)
        below = self._codes[at - 1] if at else None
        above = self._codes[at] if at < len(self._codes) else None
        if below is None:
            code = 0 if above is None else above - _STRIDE
        elif above is None:
            code = below + _STRIDE
        else:
            code = (below + above) // 2
            likeness = _shared(cut, self._cuts[at - 1]) - _shared(cut, self._cuts[at])
            if likeness:
                code = min(code, below + _STEP) if likeness > 0 else max(code, above - _STEP)
        if code in (below, above) or not -_LIMIT < code < _LIMIT:
            self._relabel()
            return self._add(cut)
        self._cuts.insert(at, cut)
        self._codes.insert(at, code)
        self._code_of[cut], self.cut_of[code] = code, cut
        return code

    @property
    def is_full(self) -> bool:
        """Whether the number of cuts has more than doubled since the last `prune`."""
        return len(self._cuts) > 2 * self._kept + _FEW

    def prune(self, used: Int64s) -> None:
        """Forget the cuts whose labels are not in `used`."""
        needed = set(used.tolist())
        kept = [(cut, code) for cut, code in zip(self._cuts, self._codes, strict=True) if code in needed]
        self._cuts, self._codes, self._code_of, self.cut_of = [], [], {}, {}
        self.load(kept)
        self._kept = len(kept)

    def _relabel(self) -> None:
        """Give all cuts new labels, far apart, and call `renamed`."""
        count = len(self._cuts)
        stride = min(_STRIDE, 2 * _LIMIT // (count + 2))
        first = -stride * (count // 2)
        old = np.array(self._codes, np.int64)
        self._codes = [first + stride * place for place in range(count)]
        self.cut_of = dict(zip(self._codes, self._cuts, strict=True))
        self._code_of = dict(zip(self._cuts, self._codes, strict=True))
        self.relabelings += 1
        self.renamed(old, np.array(self._codes, np.int64))

    def _check(self) -> None:
        assert self._cuts == sorted(set(self._cuts))
        assert self._codes == sorted(set(self._codes))
        assert self._code_of == dict(zip(self._cuts, self._codes, strict=True))
        assert self.cut_of == dict(zip(self._codes, self._cuts, strict=True))


def _shared(one: Cut, two: Cut) -> int:
    """How many characters the strings of two cuts have in common at their beginning."""
    count = 0
    for a, b in zip(str(one[2]), str(two[2]), strict=False):
        if a != b:
            break
        count += 1
    return count


def show_text(cut_of: Mapping[int, Cut], low: int, high: int) -> Interval:
    """The interval of strings between two labels, given the cut of each label."""
    bottom = None if low == LOW else cut_of[low]
    top = None if high == HIGH else cut_of[high]
    ends = "(" if bottom is not None and bottom[3] else "["
    ends += "]" if top is not None and top[3] else ")"
    lowest, highest = (None if cut is None else str(cut[2] or "") for cut in (bottom, top))
    return Interval(lowest, highest, ends)
