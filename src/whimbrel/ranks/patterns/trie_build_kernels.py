"""The kernels that build a trie of fragments.

A trie has the bytes of fragments on its edges. Nodes are numbered level by level, and the children of a node are
adjacent, in the order of their bytes. A path ends soon after only one fragment is left on it, so that a fragment has
few nodes; the rest of the fragment is its *tail*. The first nodes, where searches spend most of their time, have a
*dense* row: the next node for each class of byte. Class 0 has all bytes that no fragment has.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bools, Bytes, Int32Matrix, Int32s, Int64s
from whimbrel.compiled.helpers import Integer, shared
from whimbrel.compiled.jit import helper, kernel

FIRST, FAIL, WHOLE, CUT = 0, 1, 2, 3
"""Columns of a node: its first child; the node of its longest proper suffix; and, on the chain of suffixes from the
node itself, the nearest node where a whole fragment ends, and the nearest where a fragment goes on with a tail. 0, the
root, means none."""
_FEW = 8
"""Up to this many children are searched one by one."""


@kernel
def measure(offsets: Int64s, data: Bytes, tail: int, more: int, depth: Int64s) -> np.ndarray:
    """Write the length of the path of each of the sorted distinct fragments; return the number of nodes on each level.

    A tail has at most `tail` bytes, and a path goes on for `more` bytes after its fragment is alone on it.
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
    offsets: Int64s, data: Bytes, depth: Int64s, levels: Int64s, nodes: Int32Matrix,
    labels: Bytes, fragment: Int32s,
) -> None:  # fmt: skip
    """Write the nodes of all fragments: first children, bytes (`labels`), and which fragment ends there (-1: none)."""
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
            nodes[path[d - 1], FIRST] += 1  # holds the number of children for now
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
def child_of(nodes: Int32Matrix, labels: Bytes, node: Integer, byte: int) -> Integer:
    """The child of a node for a byte, or 0."""
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
def step(nodes: Int32Matrix, labels: Bytes, classes: Bytes, dense: Int32Matrix, node: Integer, byte: int) -> Integer:
    """The next node: the longest suffix of the text up to this byte that is in the trie."""
    while node >= dense.shape[0]:
        child = child_of(nodes, labels, node, byte)
        if child != 0:
            return child
        node = np.int64(nodes[node, FAIL])
    return np.int64(dense[node, classes[byte]])


@kernel
def connect(
    nodes: Int32Matrix, labels: Bytes, fragment: Int32s, classes: Bytes, dense: Int32Matrix,
    is_whole: Bools, is_inside: bool,
) -> None:  # fmt: skip
    """Write the dense rows and, if `is_inside`, the links to suffixes, whose nodes have lower numbers."""
    for parent in range(nodes.shape[0] - 1):
        if parent < dense.shape[0]:
            if parent != 0 and is_inside:
                for c in range(dense.shape[1]):  # copies are loops here: slices take seconds to compile
                    dense[parent, c] = dense[nodes[parent, FAIL], c]
            for node in range(nodes[parent, FIRST], nodes[parent + 1, FIRST]):
                dense[parent, classes[labels[node]]] = node
        if not is_inside:
            continue
        for node in range(nodes[parent, FIRST], nodes[parent + 1, FIRST]):
            fail: Integer = np.int64(0)
            if parent != 0:
                fail = step(nodes, labels, classes, dense, np.int64(nodes[parent, FAIL]), labels[node])
            nodes[node, FAIL] = fail
            own = fragment[node]
            nodes[node, WHOLE] = node if own >= 0 and is_whole[own] else nodes[fail, WHOLE]
            nodes[node, CUT] = node if own >= 0 and not is_whole[own] else nodes[fail, CUT]
