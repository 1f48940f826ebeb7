"""The loops that make a trie of fragments.

A trie holds fragments of text as bytes, the children of a node side by side and in order, nodes level by level. A path
ends soon after its fragment is the only one left, so that there are few nodes for a fragment; what is left of it is
its *tail*. The first nodes, where texts are most of the time, have a *dense* row: the next node by class of byte.
Class 0 has the bytes that no fragment has.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.helpers import shared
from whimbrel.compiled.jit import helper, kernel

FIRST, FAIL, WHOLE, CUT = 0, 1, 2, 3
"""Columns of a node: its first child, the node of its longest proper suffix, and the nearest nodes on the way of
suffixes, from itself on, where a fragment ends, and where one goes on with a tail; 0, the root, is none."""
_FEW = 8
"""Children of a node up to which they are looked through one by one."""


@kernel
def measure(
    offsets: np.ndarray, data: np.ndarray, tail: int, more: int, depth: np.ndarray
) -> np.ndarray:  # pragma: no cover
    """Writes how deep each of the sorted distinct fragments goes; returns how many nodes each level of the trie has.

    `tail` is how long a tail may be, `more` how many bytes a path has after its fragment is alone.
    """
    count = offsets.shape[0] - 1
    longest = 0
    for i in range(count):
        longest = max(longest, offsets[i + 1] - offsets[i])
    levels = np.zeros(longest + 2, np.int64)
    before = 0
    for i in range(count):
        length = offsets[i + 1] - offsets[i]
        after = 0
        if i + 1 < count:
            most = min(length, offsets[i + 2] - offsets[i + 1])
            after = shared(data, offsets[i], data, offsets[i + 1], most)
        depth[i] = min(length, max(max(before, after) + 1 + more, length - tail))
        levels[before + 1] += 1
        levels[depth[i] + 1] -= 1
        before = after
    levels[0] = 1
    for d in range(2, levels.shape[0]):
        levels[d] += levels[d - 1]
    return levels[: longest + 1]


@kernel
def grow(
    offsets: np.ndarray,
    data: np.ndarray,
    depth: np.ndarray,
    levels: np.ndarray,
    nodes: np.ndarray,
    labels: np.ndarray,
    fragment: np.ndarray,
) -> None:  # pragma: no cover
    """Makes the nodes of all fragments: their first children, labels and fragments (-1: none)."""
    following = np.zeros(levels.shape[0] + 1, np.int64)
    for d in range(levels.shape[0]):
        following[d + 1] = following[d] + levels[d]
    path = np.zeros(levels.shape[0] + 1, np.int64)
    fragment[:] = -1
    before = 0
    for i in range(offsets.shape[0] - 1):
        for d in range(before + 1, depth[i] + 1):
            node = following[d]
            following[d] += 1
            labels[node] = data[offsets[i] + d - 1]
            nodes[path[d - 1], FIRST] += 1  # for now the number of children
            path[d] = node
        fragment[path[depth[i]]] = i
        before = 0
        if i + 2 < offsets.shape[0]:
            most = min(offsets[i + 1] - offsets[i], offsets[i + 2] - offsets[i + 1])
            before = shared(data, offsets[i], data, offsets[i + 1], most)
    first = 1
    for node in range(nodes.shape[0]):
        children = nodes[node, FIRST]
        nodes[node, FIRST] = first
        first += children


@helper
def child_of(nodes, labels, node, byte):  # type: ignore[no-untyped-def]
    """The child of a node, or 0."""
    low, end = np.int64(nodes[node, FIRST]), np.int64(nodes[node + 1, FIRST])
    while end - low > _FEW:
        middle = (low + end) >> 1
        if labels[middle] <= byte:
            low = middle
        else:
            end = middle
    for child in range(low, end):
        if labels[child] == byte:
            return child
    return np.int64(0)


@helper
def step(nodes, labels, classes, dense, node, byte):  # type: ignore[no-untyped-def]
    """The node of the longest suffix of the text so far that is in the trie."""
    while node >= dense.shape[0]:
        child = child_of(nodes, labels, node, byte)
        if child != 0:
            return child
        node = np.int64(nodes[node, FAIL])
    return np.int64(dense[node, classes[byte]])


@kernel
def connect(
    nodes: np.ndarray,
    labels: np.ndarray,
    fragment: np.ndarray,
    classes: np.ndarray,
    dense: np.ndarray,
    is_whole: np.ndarray,
    is_inside: bool,
) -> None:  # pragma: no cover
    """Writes the dense rows and, for fragments inside, the ways of suffixes, of which every node comes before."""
    for parent in range(nodes.shape[0] - 1):
        if parent < dense.shape[0]:
            if parent != 0 and is_inside:
                for c in range(dense.shape[1]):  # a loop, as all copies here: slices take seconds to compile
                    dense[parent, c] = dense[nodes[parent, FAIL], c]
            for node in range(nodes[parent, FIRST], nodes[parent + 1, FIRST]):
                dense[parent, classes[labels[node]]] = node
        if not is_inside:
            continue
        for node in range(nodes[parent, FIRST], nodes[parent + 1, FIRST]):
            fail = np.int64(0)
            if parent != 0:
                fail = step(nodes, labels, classes, dense, np.int64(nodes[parent, FAIL]), labels[node])
            nodes[node, FAIL] = fail
            own = fragment[node]
            nodes[node, WHOLE] = node if own >= 0 and is_whole[own] else nodes[fail, WHOLE]
            nodes[node, CUT] = node if own >= 0 and not is_whole[own] else nodes[fail, CUT]
