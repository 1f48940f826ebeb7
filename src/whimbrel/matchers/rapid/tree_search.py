"""The search of a RAPIDMatch tree, in Numba; `tree_kernels` describes the arrays."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import kernel

_NONE = -1


@kernel
def search_tree(
    tree: int,
    event: np.ndarray,
    nodes: np.ndarray,
    entries: np.ndarray,
    ones: np.ndarray,
    zeros: np.ndarray,
    roots: np.ndarray,
    orders: np.ndarray,
    mirrored: np.ndarray,
    stack: np.ndarray,
    found: np.ndarray,
    counts: np.ndarray,
) -> int:  # pragma: no cover
    """The rows of a tree that an event (a row of its ones and a row of its zeros) satisfies, into `found`."""
    flip = 1 if mirrored[tree] else 0
    matched, visited, compared = 0, 0, 0
    depth = 0
    if roots[tree] != _NONE:
        stack[0] = roots[tree]
        depth = 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        visited += 1
        if nodes[node, 0] == _NONE:
            entry = nodes[node, 1]
            while entry != _NONE:
                row = entries[entry, 0]
                wrong = np.uint64(0)
                for word in range(ones.shape[1]):
                    wrong |= (ones[row, word] & ~event[0, word]) | (zeros[row, word] & ~event[1, word])
                if wrong == 0:
                    found[matched] = row
                    matched += 1
                compared += 1
                entry = entries[entry, 1]
            continue
        bit = orders[tree, nodes[node, 0]]
        shift = np.uint64(bit & 63)
        if nodes[node, 1] != _NONE:
            stack[depth] = nodes[node, 1]
            depth += 1
        for value in range(2):  # an event may hold both, in a list, or neither
            child = nodes[node, 2 + value]
            side = value ^ 1 ^ flip
            if child != _NONE and (event[side, bit >> 6] >> shift) & np.uint64(1):
                stack[depth] = child
                depth += 1
    counts[0] += visited
    counts[1] += compared
    return matched
