"""Labels: 64-bit integers in the order of cuts that come at any time, with gaps for those to come.

A new cut takes the middle of its gap, or a stride beyond the last one. When a gap is used up, all labels are spread
anew, and whoever stored labels must replace them: `spread` counts how often that happened and `renamed` tells how.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from whimbrel.model.intervals import Cut

_STRIDE = 1 << 32
_LIMIT = 1 << 61
_FEW = 1_024

Codes = NDArray[np.int64]


class Labels:
    """Cuts in order, each with its label."""

    def __init__(self) -> None:
        self._cuts: list[Cut] = []
        self._codes: list[int] = []
        self.cut_of: dict[int, Cut] = {}
        """Cuts by label. Only ever added to, and replaced where labels change: who keeps it with labels reads them."""
        self._code_of: dict[Cut, int] = {}
        self.spread = 0
        self._kept = 0
        self.renamed: Callable[[Codes, Codes], None] = lambda old, new: None

    def __len__(self) -> int:
        return len(self._cuts)

    def of(self, cut: Cut) -> int:
        """The label of a cut, a new one where it has none yet. Amortised O(log n) steps and one move of a list."""
        code = self._code_of.get(cut)
        return self._add(cut) if code is None else code

    def dump(self) -> list[tuple[Cut, int]]:
        """All cuts with their labels."""
        return list(zip(self._cuts, self._codes, strict=True))

    def load(self, pairs: Iterable[tuple[Cut, int]]) -> None:
        """Take over what `dump` gave."""
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
        if code in (below, above) or not -_LIMIT < code < _LIMIT:
            self._spread()
            return self._add(cut)
        self._cuts.insert(at, cut)
        self._codes.insert(at, code)
        self._code_of[cut], self.cut_of[code] = code, cut
        return code

    @property
    def is_full(self) -> bool:
        """Whether most cuts are new since those not in use were forgotten."""
        return len(self._cuts) > 2 * self._kept + _FEW

    def prune(self, used: Codes) -> None:
        """Forget the cuts whose labels are not in use."""
        needed = set(used.tolist())
        kept = [(cut, code) for cut, code in zip(self._cuts, self._codes, strict=True) if code in needed]
        self._cuts, self._codes, self._code_of, self.cut_of = [], [], {}, {}
        self.load(kept)
        self._kept = len(kept)

    def _spread(self) -> None:
        """Give all cuts labels far apart."""
        count = len(self._cuts)
        stride = min(_STRIDE, 2 * _LIMIT // (count + 2))
        first = -stride * (count // 2)
        old = np.array(self._codes, np.int64)
        self._codes = [first + stride * place for place in range(count)]
        self.cut_of = dict(zip(self._codes, self._cuts, strict=True))
        self._code_of = dict(zip(self._cuts, self._codes, strict=True))
        self.spread += 1
        self.renamed(old, np.array(self._codes, np.int64))

    def _check(self) -> None:
        assert self._cuts == sorted(set(self._cuts))
        assert self._codes == sorted(set(self._codes))
        assert self._code_of == dict(zip(self._cuts, self._codes, strict=True))
        assert self.cut_of == dict(zip(self._codes, self._cuts, strict=True))
