"""Matches of many states as arrays, and what is new between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Found(NamedTuple):
    """Pairs of a row and a subscription's code, in one integer each: row << 32 | code."""

    pairs: np.ndarray


@dataclass
class Matches:
    """For each state the codes of the subscriptions that it matches; a length of -1 is not known."""

    starts: np.ndarray
    lengths: np.ndarray
    codes: np.ndarray

    @staticmethod
    def unknown(count: int) -> Matches:
        """States of which nothing is known."""
        return Matches(np.zeros(count, np.int64), np.full(count, -1, np.int64), np.zeros(0, np.int64))

    @staticmethod
    def of_pairs(rows: np.ndarray, codes: np.ndarray, count: int) -> Matches:
        """From pairs of state and code."""
        order = np.argsort(rows, kind="stable")
        lengths = np.bincount(rows, minlength=count).astype(np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])[:-1]
        return Matches(starts, lengths, codes[order])

    def of(self, row: int) -> np.ndarray:
        """The codes of one state."""
        start = self.starts[row]
        return self.codes[start : start + max(self.lengths[row], 0)]

    def without(self, chosen: np.ndarray) -> Matches:
        """Some states match nothing."""
        return Matches(self.starts, np.where(chosen, 0, self.lengths), self.codes)

    def then(self, others: Matches) -> Matches:
        """These states and others after them."""
        starts = np.concatenate([self.starts, others.starts + len(self.codes)])
        lengths = np.concatenate([self.lengths, others.lengths])
        return Matches(starts, lengths, np.concatenate([self.codes, others.codes]))

    def take(self, rows: np.ndarray) -> Matches:
        """Some of the states, with their codes only."""
        lengths = self.lengths[rows]
        found = _expand(self.starts[rows], lengths)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.maximum(lengths, 0))])[:-1]
        return Matches(starts, lengths, self.codes[found])

    def learn(self, rows: np.ndarray, found: Matches) -> None:
        """The codes of some states."""
        self.starts[rows] = found.starts + len(self.codes)
        self.lengths[rows] = found.lengths
        self.codes = np.concatenate([self.codes, found.codes])


def gather(matches: Matches, states: np.ndarray) -> Found:
    """The pairs (place in `states`, code); a state of -1 has none."""
    known = np.flatnonzero(states >= 0)
    lengths = np.maximum(matches.lengths[states[known]], 0)
    codes = matches.codes[_expand(matches.starts[states[known]], lengths)]
    return Found(np.repeat(known, lengths) << 32 | codes)


def begun(was: Found, has: Found) -> tuple[np.ndarray, np.ndarray]:
    """Rows and codes of the pairs that are new."""
    new = np.setdiff1d(has.pairs, was.pairs, assume_unique=True)
    return new >> 32, new & 0xFFFFFFFF


def _expand(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """All places of ranges."""
    lengths = np.maximum(lengths, 0)
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)
