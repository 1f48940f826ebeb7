"""The loops over books of pieces: making the trie of a book, and finding the pieces that a text has.

A trie holds pieces of text as bytes, the children of a node side by side and in order, nodes level by level. A path
ends where its piece is the only one left, so that there are about two nodes for a piece; what is left of the piece,
its *tail*, is compared with the text. Where pieces may begin anywhere (Aho and Corasick, 1975) tails are short, so
that a byte of the text takes a bounded time; as no path leads on from a node with a tail, at most one of the pieces
that begin at a place of the text has a tail to compare. The first nodes, where texts are most of the time, have a
*dense* row: the next node by class of byte. Class 0 has the bytes that no piece has.
"""

from __future__ import annotations

import numpy as np

from whimbrel.engine.jit import helper, kernel
from whimbrel.engine.text_kernels import shared

FIRST, FAIL, WHOLE, CUT = 0, 1, 2, 3
"""Columns of a node: its first child, the node of its longest proper suffix, and the nearest nodes on the way of
suffixes, from itself on, where a piece ends, and where one goes on with a tail; 0, the root, is none."""
START, LENGTH, DEPTH, SOME, EVERY = 0, 1, 2, 3, 4
"""Columns of a piece: where its text is and how long, the depth of its node, and the ranks that it stands for, or 0."""
_FEW = 8
"""Pieces of a text, or children of a node, up to which they are looked through one by one."""


@kernel
def measure(offsets: np.ndarray, data: np.ndarray, tail: int, depth: np.ndarray) -> np.ndarray:  # pragma: no cover
    """Writes how deep each of the sorted distinct pieces goes; returns how many nodes each level of the trie has."""
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
        depth[i] = min(length, max(max(before, after) + 1, length - tail))
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
    piece: np.ndarray,
) -> None:  # pragma: no cover
    """Makes the nodes of all pieces: their first children, labels and pieces (-1: none)."""
    following = np.zeros(levels.shape[0] + 1, np.int64)
    for d in range(levels.shape[0]):
        following[d + 1] = following[d] + levels[d]
    path = np.zeros(levels.shape[0] + 1, np.int64)
    piece[:] = -1
    before = 0
    for i in range(offsets.shape[0] - 1):
        for d in range(before + 1, depth[i] + 1):
            node = following[d]
            following[d] += 1
            labels[node] = data[offsets[i] + d - 1]
            nodes[path[d - 1], FIRST] += 1  # for now the number of children
            path[d] = node
        piece[path[depth[i]]] = i
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
def _child(nodes, labels, node, byte):  # type: ignore[no-untyped-def]
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
def _step(nodes, labels, classes, dense, node, byte):  # type: ignore[no-untyped-def]
    """The node of the longest suffix of the text so far that is in the trie."""
    while node >= dense.shape[0]:
        child = _child(nodes, labels, node, byte)
        if child != 0:
            return child
        node = np.int64(nodes[node, FAIL])
    return np.int64(dense[node, classes[byte]])


@kernel
def connect(
    nodes: np.ndarray,
    labels: np.ndarray,
    piece: np.ndarray,
    classes: np.ndarray,
    dense: np.ndarray,
    is_whole: np.ndarray,
    is_inside: bool,
) -> None:  # pragma: no cover
    """Writes the dense rows and, for pieces inside, the ways of suffixes, of which every node comes before."""
    for parent in range(nodes.shape[0] - 1):
        if parent < dense.shape[0]:
            if parent != 0 and is_inside:
                dense[parent] = dense[nodes[parent, FAIL]]
            for node in range(nodes[parent, FIRST], nodes[parent + 1, FIRST]):
                dense[parent, classes[labels[node]]] = node
        if not is_inside:
            continue
        for node in range(nodes[parent, FIRST], nodes[parent + 1, FIRST]):
            fail = np.int64(0)
            if parent != 0:
                fail = _step(nodes, labels, classes, dense, np.int64(nodes[parent, FAIL]), labels[node])
            nodes[node, FAIL] = fail
            own = piece[node]
            nodes[node, WHOLE] = node if own >= 0 and is_whole[own] else nodes[fail, WHOLE]
            nodes[node, CUT] = node if own >= 0 and not is_whole[own] else nodes[fail, CUT]


@helper
def _larger(array):  # type: ignore[no-untyped-def]
    out = np.empty(2 * array.size, array.dtype)
    out[: array.size] = array
    return out


@helper
def _place(table, number):  # type: ignore[no-untyped-def]
    """Where a piece is in a table, or belongs."""
    mask = table.size - 1
    at = (number * 0x9E3779B1 >> 7) & mask
    while table[at] >= 0 and table[at] != number:
        at = (at + 1) & mask
    return at


@helper
def _is_new(found, count, table, number):  # type: ignore[no-untyped-def]
    """Whether a piece is not among the first `count` of those found."""
    if count > _FEW:
        return table[_place(table, number)] < 0
    is_new = True
    for i in range(count):
        is_new &= found[i] != number
    return is_new


@helper
def _listed(found, count, table):  # type: ignore[no-untyped-def]
    """The table with the last of the pieces found, larger where they fill it by half."""
    if count <= _FEW:
        return table
    first = count - 1
    if 2 * count > table.size:
        table = np.empty(4 * table.size, np.int64)
        first = 0
    elif count == _FEW + 1:
        first = 0
    if first == 0:
        table[:] = -1
    for i in range(first, count):
        table[_place(table, found[i])] = found[i]
    return table


@helper
def _write(pieces, found, count, ranks, n):  # type: ignore[no-untyped-def]
    """Appends the ranks of the pieces found: the ranks, which may be another array, and their number."""
    while n + 2 * count > ranks.size:
        ranks = _larger(ranks)
    for i in range(count):
        for column in (SOME, EVERY):
            ranks[n] = pieces[found[i], column]
            n += ranks[n] > 0
    return ranks, n


@kernel
def find_inside(
    nodes: np.ndarray,
    labels: np.ndarray,
    piece: np.ndarray,
    classes: np.ndarray,
    dense: np.ndarray,
    pieces: np.ndarray,
    known: np.ndarray,
    offsets: np.ndarray,
    data: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # pragma: no cover
    """The ranks of the pieces that each text has somewhere, each once: where those of a text begin, and the ranks."""
    ends = np.zeros(offsets.shape[0], np.int64)
    ranks = np.empty(16, np.int32)
    found = np.empty(16, np.int64)
    table = np.empty(64, np.int64)
    n = 0
    for t in range(offsets.shape[0] - 1):
        end = offsets[t + 1]
        node = np.int64(0)
        count = 0
        for at in range(offsets[t], end):
            node = _step(nodes, labels, classes, dense, node, data[at])
            if nodes[node, WHOLE] | nodes[node, CUT] == 0:
                continue
            hit = np.int64(nodes[node, WHOLE])
            while hit != 0 and _is_new(found, count, table, np.int64(piece[hit])):  # after one that is not new, none is
                if count == found.size:
                    found = _larger(found)
                found[count] = piece[hit]
                count += 1
                table = _listed(found, count, table)
                hit = np.int64(nodes[nodes[hit, FAIL], WHOLE])
            hit = np.int64(nodes[node, CUT])
            while hit != 0:
                p = np.int64(piece[hit])
                rest = pieces[p, LENGTH] - pieces[p, DEPTH]
                if (
                    at + 1 + rest <= end
                    and shared(known, pieces[p, START] + pieces[p, DEPTH], data, at + 1, rest) == rest
                    and _is_new(found, count, table, p)
                ):
                    if count == found.size:
                        found = _larger(found)
                    found[count] = p
                    count += 1
                    table = _listed(found, count, table)
                hit = np.int64(nodes[nodes[hit, FAIL], CUT])
        ranks, n = _write(pieces, found, count, ranks, n)
        ends[t + 1] = n
        if table.size > 64:  # the next text need not clear what this one has filled
            table = np.empty(64, np.int64)
    return ends, ranks[:n]


@kernel
def find_ends(
    nodes: np.ndarray,
    labels: np.ndarray,
    piece: np.ndarray,
    classes: np.ndarray,
    dense: np.ndarray,
    pieces: np.ndarray,
    known: np.ndarray,
    offsets: np.ndarray,
    data: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:  # pragma: no cover
    """The ranks of the pieces that each text ends with: the trie has them from their last byte to the first."""
    ends = np.zeros(offsets.shape[0], np.int64)
    ranks = np.empty(16, np.int32)
    found = np.empty(16, np.int64)
    n = 0
    for t in range(offsets.shape[0] - 1):
        start, end = offsets[t], offsets[t + 1]
        node = np.int64(0)
        count = 0
        at = end - 1
        while at >= start:
            if node < dense.shape[0]:
                node = np.int64(dense[node, classes[data[at]]])
            else:
                node = _child(nodes, labels, node, data[at])
            if node == 0:
                break
            p = np.int64(piece[node])
            if p >= 0:
                rest = pieces[p, LENGTH] - pieces[p, DEPTH]
                if at - rest >= start and shared(known, pieces[p, START], data, at - rest, rest) == rest:
                    if count == found.size:
                        found = _larger(found)
                    found[count] = p
                    count += 1
            at -= 1
        ranks, n = _write(pieces, found, count, ranks, n)
        ends[t + 1] = n
    return ends, ranks[:n]
