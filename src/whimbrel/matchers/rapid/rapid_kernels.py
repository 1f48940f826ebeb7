"""The loops of the RAPIDMatch trees, in Numba on flat arrays: insert, remove and search.

A subscription is a row of two bit masks. A tree leaves out a node where everything below it has * (Gryphon, section
5.1), so a tree has at most about twice as many nodes as entries. Every leaf compares whole masks, so its answer is
exact whatever the tree did not test. A mirrored tree, of the zeros-forest, swaps the two masks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from whimbrel.compiled.array_types import Int32s, Int64s, Uint64s
from whimbrel.compiled.jit import helper, inlined, kernel

_NONE = -1


class NodePool(NamedTuple):
    """The nodes and entries of all trees of a matcher.

    A row of `nodes` is (position, star, zero, one): the position in its tree's order of properties that the node tests,
    and its three children. For a leaf it is (-1, first entry, number of entries, -1).
    """

    nodes: Int32s  # [n, 4]
    entries: Int32s  # [m, 2]: row, next entry
    used: Int64s  # [4]: nodes used, first free node, entries used, first free entry


class PropertyMasks(NamedTuple):
    """The bit masks of rows: the properties that must be 1, and those that must be 0."""

    ones: Uint64s  # [row, word]
    zeros: Uint64s


class TreeTable(NamedTuple):
    """One row per tree: it holds the rows of at most `limits` ones that have no 1 inside the block."""

    roots: Int32s  # [tree]
    orders: Int32s  # [tree, property]: the properties outside the block, as they are tested
    limits: Int32s  # [tree]
    blocks: Uint64s  # [tree, word]
    mirrored: npt.NDArray[np.bool_]  # [tree]
    sizes: Int64s  # [tree, 2]: nodes and entries


@inlined
def _branch(masks: PropertyMasks, row: int, bit: int) -> int:
    """The column of a node's child that a row belongs to: 1 for *, 2 for 0, 3 for 1."""
    shift = np.uint64(bit & 63)
    if (masks.ones[row, bit >> 6] >> shift) & np.uint64(1):
        return 3
    if (masks.zeros[row, bit >> 6] >> shift) & np.uint64(1):
        return 2
    return 1


@helper
def _new_node(pool: NodePool, size: Int64s) -> int:
    nodes, used = pool.nodes, pool.used
    node = used[1]
    if node == _NONE:
        node = used[0]
        used[0] += 1
    else:
        used[1] = nodes[node, 1]
    nodes[node, 0] = nodes[node, 1] = nodes[node, 3] = _NONE
    nodes[node, 2] = 0
    size[0] += 1
    return int(node)


@helper
def _push(pool: NodePool, leaf: int, row: int) -> None:
    nodes, entries, used = pool.nodes, pool.entries, pool.used
    entry = used[3]
    if entry == _NONE:
        entry = used[2]
        used[2] += 1
    else:
        used[3] = entries[entry, 1]
    entries[entry, 0] = row
    entries[entry, 1] = nodes[leaf, 1]
    nodes[leaf, 1] = entry
    nodes[leaf, 2] += 1


@helper
def _new_leaf(pool: NodePool, row: int, size: Int64s) -> int:
    leaf = _new_node(pool, size)
    _push(pool, leaf, row)
    return leaf


@helper
def _apart(masks: PropertyMasks, row: int, other: int, block: Uint64s) -> bool:
    """Whether some property outside the block tells two rows apart."""
    ones, zeros = masks.ones, masks.zeros
    for word in range(block.shape[0]):
        apart = (ones[row, word] ^ ones[other, word]) | (zeros[row, word] ^ zeros[other, word])
        if apart & ~block[word]:
            return True
    return False


@helper
def _separable(pool: NodePool, leaf: int, masks: PropertyMasks, block: Uint64s) -> bool:
    entry = pool.nodes[leaf, 1]
    first = pool.entries[entry, 0]
    while entry != _NONE:
        if _apart(masks, pool.entries[entry, 0], first, block):
            return True
        entry = pool.entries[entry, 1]
    return False


@helper
def _split(
    pool: NodePool, trees: TreeTable, tree: int, leaf: int, start: int, masks: PropertyMasks, capacity: int
) -> None:
    """Turn an overfull leaf into a node on the first property that some entry cares about, and so on below."""
    nodes, entries, order, block, size = pool.nodes, pool.entries, trees.orders[tree], trees.blocks[tree], trees.sizes
    while nodes[leaf, 2] > capacity and _separable(pool, leaf, masks, block):
        position = start - 1
        tested = False
        while not tested:
            position += 1
            entry = nodes[leaf, 1]
            while entry != _NONE and not tested:
                tested = _branch(masks, entries[entry, 0], order[position]) != 1
                entry = entries[entry, 1]
        entry = nodes[leaf, 1]
        nodes[leaf, 0] = position
        nodes[leaf, 1] = nodes[leaf, 2] = nodes[leaf, 3] = _NONE
        largest = _NONE
        while entry != _NONE:
            following = entries[entry, 1]
            column = _branch(masks, entries[entry, 0], order[position])
            child = nodes[leaf, column]
            if child == _NONE:
                child = _new_node(pool, size[tree])
                nodes[leaf, column] = child
            entries[entry, 1] = nodes[child, 1]
            nodes[child, 1] = entry
            nodes[child, 2] += 1
            if largest == _NONE or nodes[child, 2] > nodes[largest, 2]:
                largest = child
            entry = following
        leaf, start = largest, position + 1


@helper
def _insert(pool: NodePool, trees: TreeTable, tree: int, row: int, masks: PropertyMasks, capacity: int) -> None:
    nodes, order, size = pool.nodes, trees.orders[tree], trees.sizes[tree]
    parent, column, node, start = _NONE, 0, trees.roots[tree], 0
    fresh = _NONE
    while fresh == _NONE:
        if node == _NONE:
            fresh = _new_leaf(pool, row, size)
        elif nodes[node, 0] == _NONE:
            # The entries of an overfull leaf are alike outside the block, so that the first speaks for all.
            first = pool.entries[nodes[node, 1], 0]
            alike = nodes[node, 2] > capacity and not _apart(masks, row, first, trees.blocks[tree])
            _push(pool, node, row)
            if not alike:
                _split(pool, trees, tree, node, start, masks, capacity)
            break
        else:
            tested = nodes[node, 0]
            while start < tested and _branch(masks, row, order[start]) == 1:
                start += 1
            if start < tested:  # a property that everything below the node left open
                fresh = _new_node(pool, size)
                nodes[fresh, 0] = start
                nodes[fresh, 1] = node
                nodes[fresh, 2] = nodes[fresh, 3] = _NONE
                nodes[fresh, _branch(masks, row, order[start])] = _new_leaf(pool, row, size)
            else:
                parent, column = node, _branch(masks, row, order[tested])
                node, start = nodes[parent, column], tested + 1
    if fresh != _NONE and parent == _NONE:
        trees.roots[tree] = fresh
    elif fresh != _NONE:
        nodes[parent, column] = fresh
    size[1] += 1


@helper
def _qualifies(ones: Uint64s, row: int, block: Uint64s, limit: int) -> bool:
    """Whether a row has at most `limit` ones, none of them inside the block."""
    count = 0
    for word in range(block.shape[0]):
        bits = ones[row, word]
        if bits & block[word]:
            return False
        while bits:
            bits &= bits - np.uint64(1)
            count += 1
    return count <= limit


@kernel
def insert_rows(rows: Int64s, capacity: int, pool: NodePool, masks: PropertyMasks, trees: TreeTable) -> int:
    """Insert rows into every tree they qualify for (ERR-7a); returns how many went in before the pool was full."""
    count, width = trees.orders.shape
    used = pool.used
    for done in range(rows.shape[0]):
        if used[0] + count * (width + 4) > len(pool.nodes) or used[2] + count > len(pool.entries):
            return done
        row = rows[done]
        for tree in range(count):
            held = PropertyMasks(masks.zeros, masks.ones) if trees.mirrored[tree] else masks
            if _qualifies(held.ones, row, trees.blocks[tree], trees.limits[tree]):
                _insert(pool, trees, tree, row, held, capacity)
    return int(rows.shape[0])


@kernel
def remove_row(row: int, pool: NodePool, masks: PropertyMasks, trees: TreeTable) -> None:
    """Remove a row from every tree that holds it, with the nodes that it leaves without a purpose."""
    nodes, used, roots, orders, sizes = pool.nodes, pool.used, trees.roots, trees.orders, trees.sizes
    path = np.empty((orders.shape[1] + 2, 2), np.int64)
    for tree in range(roots.shape[0]):
        held = PropertyMasks(masks.zeros, masks.ones) if trees.mirrored[tree] else masks
        if not _qualifies(held.ones, row, trees.blocks[tree], trees.limits[tree]):
            continue
        node, depth = roots[tree], 0
        while nodes[node, 0] != _NONE:
            path[depth, 0] = node
            path[depth, 1] = _branch(held, row, orders[tree, nodes[node, 0]])
            node = nodes[node, path[depth, 1]]
            depth += 1
        _unlink(pool, node, row)
        sizes[tree, 1] -= 1
        if nodes[node, 2] > 0:
            continue
        # Upwards: a node without a child for 0 or 1 gives way to what it has under *.
        kept = _NONE
        while True:
            nodes[node, 1] = used[1]
            used[1] = node
            sizes[tree, 0] -= 1
            depth -= 1
            if depth < 0:
                roots[tree] = kept
                break
            node = path[depth, 0]
            nodes[node, path[depth, 1]] = kept
            if nodes[node, 2] != _NONE or nodes[node, 3] != _NONE:
                break
            kept = nodes[node, 1]


@helper
def _unlink(pool: NodePool, leaf: int, row: int) -> None:
    nodes, entries, used = pool.nodes, pool.entries, pool.used
    before, entry = _NONE, nodes[leaf, 1]
    while entries[entry, 0] != row:
        before, entry = entry, entries[entry, 1]
    if before == _NONE:
        nodes[leaf, 1] = entries[entry, 1]
    else:
        entries[before, 1] = entries[entry, 1]
    nodes[leaf, 2] -= 1
    entries[entry, 1] = used[3]
    used[3] = entry


@kernel
def search_tree(
    tree: int,
    event: Uint64s,
    pool: NodePool,
    masks: PropertyMasks,
    trees: TreeTable,
    stack: Int32s,
    found: Int32s,
    counters: Int64s | None,
) -> int:
    """Write the rows of a tree that an event (a row of its ones and a row of its zeros) satisfies into `found`."""
    nodes, entries, ones, zeros = pool.nodes, pool.entries, masks.ones, masks.zeros
    roots, orders = trees.roots, trees.orders
    flip = 1 if trees.mirrored[tree] else 0
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
    if counters is not None:
        counters[0] += visited
        counters[1] += compared
    return matched
