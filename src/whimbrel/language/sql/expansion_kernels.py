"""Builds the OR of conjunctions of a text while compiled loops read it: distributes AND over OR."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bools, Bytes, Int32s, Int64s
from whimbrel.compiled.jit import inlined, kernel
from whimbrel.model.limits import FILTER_CONJUNCTIONS

JOIN_OR, JOIN_AND, NEGATION, PARENTHESIS = range(4)
"""Operators on the stack: a join by its precedence in the text, with 4 added if it means AND; NOT; a parenthesis."""
MEANS_AND = 4

CONJUNCTIONS = FILTER_CONJUNCTIONS.value
"""Conjunctions of a text, at most."""
LEAVES = 1_024
"""Predicates of a text, at most."""
REFERENCES = 8_192
"""Predicates of all conjunctions of a text, at most."""


class Expansion(NamedTuple):
    """The OR of conjunctions of a text while it is read.

    `used` counts alternatives (ORs of conjunctions that wait for a join), conjunctions and references.
    """

    used: Int64s
    first: Int64s  # the first conjunction of each alternative
    start: Int64s  # the first reference of each conjunction
    size: Int64s
    leaf: Int64s  # the predicate of each reference


@inlined
def add_leaf(dnf: Expansion, leaf: int) -> bool:
    """Add an alternative of one conjunction of one predicate; False if there are too many."""
    count = dnf.used
    waiting, made, used = count[0], count[1], count[2]
    dnf.first[waiting], dnf.start[made], dnf.size[made], dnf.leaf[used] = made, used, 1, leaf
    count[0], count[1], count[2] = waiting + 1, made + 1, used + 1  # a slice would be slower
    return bool(made + 1 < CONJUNCTIONS + LEAVES and used + 1 < REFERENCES)


@inlined
def _and(dnf: Expansion) -> bool:
    """Join the last two alternatives by AND; False if there are too many conjunctions."""
    count, first, start, size, leaf = dnf.used, dnf.first, dnf.start, dnf.size, dnf.leaf
    one, two, conjunctions, references = first[count[0] - 2], first[count[0] - 1], count[1], count[2]
    count[0] -= 1
    if conjunctions - one == 2 and two - one == 1:
        size[one] += size[two]
        count[1] -= 1
        return True
    made, used = conjunctions, references
    for i in range(one, two):
        for j in range(two, conjunctions):
            if made >= start.size or used + size[i] + size[j] > leaf.size:
                return False
            start[made], size[made] = used, size[i] + size[j]
            for k in range(size[i]):
                leaf[used + k] = leaf[start[i] + k]
            used += size[i]
            for k in range(size[j]):
                leaf[used + k] = leaf[start[j] + k]
            used += size[j]
            made += 1
    down = references - start[one]
    for i in range(conjunctions, made):
        start[one + i - conjunctions], size[one + i - conjunctions] = start[i] - down, size[i]
    for k in range(references, used):
        leaf[k - down] = leaf[k]
    count[1], count[2] = one + made - conjunctions, used - down
    return bool(count[1] <= CONJUNCTIONS and count[2] <= REFERENCES)


@inlined
def join_waiting(dnf: Expansion, operators: Bytes, waiting: int, precedence: int) -> int:
    """Do the waiting joins of at least this precedence; return how many operators still wait, or -1: too many
    conjunctions."""
    while waiting > 0 and precedence <= operators[waiting - 1] & 3 <= JOIN_AND:
        waiting -= 1
        if operators[waiting] >= MEANS_AND:
            if not _and(dnf):
                return -1
        else:  # OR: the conjunctions of the last two alternatives are adjacent already
            dnf.used[0] -= 1
    return waiting


class UseAlternatives(NamedTuple):
    """The alternatives that replace uses: use u has `number[u]` of them from `first[u]` on, or 0 if it stays.

    Alternative a is the uses `place[start[a]:start[a + 1]]`, all of which must hold.
    """

    first: Int64s
    number: Int64s
    start: Int64s
    place: Int64s


@kernel
def replace_uses(
    rows: Int64s, counts: Int32s, uses: Int32s, by: UseAlternatives, is_left: Bools
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Replace uses by their alternatives; return rows, counts and uses of the new conjunctions.

    Rows with `is_left`, which the parser reads, have none.
    """
    new_rows, new_counts, new_uses = np.empty(0, rows.dtype), np.empty(0, np.int32), np.empty(0, np.int32)
    for is_written in (False, True):
        made = used = begin = 0
        for i in range(rows.size):
            total = 0 if is_left[rows[i]] else 1
            for use in uses[begin : begin + counts[i]]:
                total *= max(1, by.number[use])
            for choice in range(total):
                first, others = used, choice
                for use in uses[begin : begin + counts[i]]:
                    if by.number[use] == 0:
                        if is_written:
                            new_uses[used] = use
                        used += 1
                        continue
                    one = by.first[use] + others % by.number[use]
                    others //= by.number[use]
                    for place in by.place[by.start[one] : by.start[one + 1]]:
                        if is_written:
                            new_uses[used] = place
                        used += 1
                if is_written:
                    new_rows[made], new_counts[made] = rows[i], used - first
                made += 1
            begin += counts[i]
        if not is_written:
            new_rows, new_counts = np.empty(made, rows.dtype), np.empty(made, np.int32)
            new_uses = np.empty(used, np.int32)
    return new_rows, new_counts, new_uses
