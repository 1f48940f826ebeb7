"""The loops that change the RAPIDMatch trees, in Numba on flat arrays that grow: insert and remove.

All trees of a matcher share one pool. A row of `nodes` is (position, star, zero, one): the position in its tree's order
of properties that the node tests and its three children; or, for a leaf, (-1, first entry, number of entries, -1). A
row of `entries` is (row, next entry). `pool` holds (nodes used, first free node, entries used, first free entry).

A row is a subscription as two bit masks, the properties that must be 1 and those that must be 0. A node is left out
where everything below it has * (Gryphon, section 5.1), so that a tree has at most about twice as many nodes as entries.
Every leaf compares whole masks, which makes its answer exact whatever the tree did not test. A mirrored tree, of the
zeros-forest, holds every mask with the roles of 0 and 1 swapped.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import helper, inlined, kernel

_NONE = -1


@inlined
def _branch(
    ones: np.ndarray,
    zeros: np.ndarray,
    row: int,
    bit: int,
) -> int:  # pragma: no cover
    """The column of a node's child that a row belongs to: 1 for *, 2 for 0, 3 for 1."""
    shift = np.uint64(bit & 63)
    if (ones[row, bit >> 6] >> shift) & np.uint64(1):
        return 3
    if (zeros[row, bit >> 6] >> shift) & np.uint64(1):
        return 2
    return 1


@helper
def _new_node(
    nodes: np.ndarray,
    pool: np.ndarray,
) -> int:  # pragma: no cover
    node = pool[1]
    if node == _NONE:
        node = pool[0]
        pool[0] += 1
    else:
        pool[1] = nodes[node, 1]
    nodes[node, 0] = _NONE
    nodes[node, 1] = _NONE
    nodes[node, 2] = 0
    nodes[node, 3] = _NONE
    return int(node)


@helper
def _push(
    nodes: np.ndarray,
    entries: np.ndarray,
    pool: np.ndarray,
    leaf: int,
    row: int,
) -> None:  # pragma: no cover
    entry = pool[3]
    if entry == _NONE:
        entry = pool[2]
        pool[2] += 1
    else:
        pool[3] = entries[entry, 1]
    entries[entry, 0] = row
    entries[entry, 1] = nodes[leaf, 1]
    nodes[leaf, 1] = entry
    nodes[leaf, 2] += 1


@helper
def _new_leaf(
    nodes: np.ndarray,
    entries: np.ndarray,
    pool: np.ndarray,
    row: int,
    size: np.ndarray,
) -> int:  # pragma: no cover
    leaf = _new_node(nodes, pool)
    size[0] += 1
    _push(nodes, entries, pool, leaf, row)
    return leaf


@helper
def _apart(
    ones: np.ndarray,
    zeros: np.ndarray,
    row: int,
    other: int,
    block: np.ndarray,
) -> bool:  # pragma: no cover
    """Whether some property outside the block tells two rows apart."""
    for word in range(block.shape[0]):
        apart = (ones[row, word] ^ ones[other, word]) | (zeros[row, word] ^ zeros[other, word])
        if apart & ~block[word]:
            return True
    return False


@helper
def _separable(
    nodes: np.ndarray,
    entries: np.ndarray,
    leaf: int,
    ones: np.ndarray,
    zeros: np.ndarray,
    block: np.ndarray,
) -> bool:  # pragma: no cover
    entry = nodes[leaf, 1]
    first = entries[entry, 0]
    while entry != _NONE:
        if _apart(ones, zeros, entries[entry, 0], first, block):
            return True
        entry = entries[entry, 1]
    return False


@helper
def _split(
    nodes: np.ndarray,
    entries: np.ndarray,
    pool: np.ndarray,
    leaf: int,
    start: int,
    order: np.ndarray,
    ones: np.ndarray,
    zeros: np.ndarray,
    block: np.ndarray,
    capacity: int,
    size: np.ndarray,
) -> None:  # pragma: no cover
    """Turn an overfull leaf into a node on the first property that some entry cares about, and so on below."""
    while nodes[leaf, 2] > capacity and _separable(nodes, entries, leaf, ones, zeros, block):
        position = start - 1
        tested = False
        while not tested:
            position += 1
            entry = nodes[leaf, 1]
            while entry != _NONE and not tested:
                tested = _branch(ones, zeros, entries[entry, 0], order[position]) != 1
                entry = entries[entry, 1]
        entry = nodes[leaf, 1]
        nodes[leaf, 0] = position
        nodes[leaf, 1] = nodes[leaf, 2] = nodes[leaf, 3] = _NONE
        largest = _NONE
        while entry != _NONE:
            following = entries[entry, 1]
            column = _branch(ones, zeros, entries[entry, 0], order[position])
            child = nodes[leaf, column]
            if child == _NONE:
                child = _new_node(nodes, pool)
                size[0] += 1
                nodes[leaf, column] = child
            entries[entry, 1] = nodes[child, 1]
            nodes[child, 1] = entry
            nodes[child, 2] += 1
            if largest == _NONE or nodes[child, 2] > nodes[largest, 2]:
                largest = child
            entry = following
        leaf, start = largest, position + 1


@helper
def _insert(
    nodes: np.ndarray,
    entries: np.ndarray,
    pool: np.ndarray,
    roots: np.ndarray,
    tree: int,
    row: int,
    order: np.ndarray,
    ones: np.ndarray,
    zeros: np.ndarray,
    block: np.ndarray,
    capacity: int,
    size: np.ndarray,
) -> None:  # pragma: no cover
    parent, column, node, start = _NONE, 0, roots[tree], 0
    fresh = _NONE
    while fresh == _NONE:
        if node == _NONE:
            fresh = _new_leaf(nodes, entries, pool, row, size)
        elif nodes[node, 0] == _NONE:
            # The entries of an overfull leaf are alike outside the block, so that the first speaks for all.
            alike = nodes[node, 2] > capacity and not _apart(ones, zeros, row, entries[nodes[node, 1], 0], block)
            _push(nodes, entries, pool, node, row)
            if not alike:
                _split(nodes, entries, pool, node, start, order, ones, zeros, block, capacity, size)
            break
        else:
            tested = nodes[node, 0]
            while start < tested and _branch(ones, zeros, row, order[start]) == 1:
                start += 1
            if start < tested:  # a property that everything below the node left open
                fresh = _new_node(nodes, pool)
                size[0] += 1
                nodes[fresh, 0] = start
                nodes[fresh, 1] = node
                nodes[fresh, 2] = nodes[fresh, 3] = _NONE
                leaf = _new_leaf(nodes, entries, pool, row, size)
                nodes[fresh, _branch(ones, zeros, row, order[start])] = leaf
            else:
                parent, column = node, _branch(ones, zeros, row, order[tested])
                node, start = nodes[parent, column], tested + 1
    if fresh != _NONE and parent == _NONE:
        roots[tree] = fresh
    elif fresh != _NONE:
        nodes[parent, column] = fresh
    size[1] += 1


@kernel
def insert_rows(
    rows: np.ndarray,
    nodes: np.ndarray,
    entries: np.ndarray,
    pool: np.ndarray,
    ones: np.ndarray,
    zeros: np.ndarray,
    roots: np.ndarray,
    orders: np.ndarray,
    limits: np.ndarray,
    blocks: np.ndarray,
    mirrored: np.ndarray,
    sizes: np.ndarray,
    capacity: int,
) -> int:  # pragma: no cover
    """Insert rows into every tree they qualify for (ERR-7a); returns how many went in before the pool was full."""
    trees = roots.shape[0]
    for done in range(rows.shape[0]):
        if pool[0] + trees * (orders.shape[1] + 4) > nodes.shape[0] or pool[2] + trees > entries.shape[0]:
            return done
        row = rows[done]
        for tree in range(trees):
            held, barred = (zeros, ones) if mirrored[tree] else (ones, zeros)
            if _qualifies(held, row, blocks[tree], limits[tree]):
                _insert(
                    nodes, entries, pool, roots, tree, row, orders[tree],
                    held, barred, blocks[tree], capacity, sizes[tree],
                )  # fmt: skip
    return int(rows.shape[0])


@helper
def _qualifies(
    ones: np.ndarray,
    row: int,
    block: np.ndarray,
    limit: int,
) -> bool:  # pragma: no cover
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
def remove_row(
    row: int,
    nodes: np.ndarray,
    entries: np.ndarray,
    pool: np.ndarray,
    ones: np.ndarray,
    zeros: np.ndarray,
    roots: np.ndarray,
    orders: np.ndarray,
    limits: np.ndarray,
    blocks: np.ndarray,
    mirrored: np.ndarray,
    sizes: np.ndarray,
) -> None:  # pragma: no cover
    """Remove a row from every tree that holds it, with the nodes that it leaves without a purpose."""
    path = np.empty((orders.shape[1] + 2, 2), np.int64)
    for tree in range(roots.shape[0]):
        held, barred = (zeros, ones) if mirrored[tree] else (ones, zeros)
        if not _qualifies(held, row, blocks[tree], limits[tree]):
            continue
        node, depth = roots[tree], 0
        while nodes[node, 0] != _NONE:
            path[depth, 0] = node
            path[depth, 1] = _branch(held, barred, row, orders[tree, nodes[node, 0]])
            node = nodes[node, path[depth, 1]]
            depth += 1
        _unlink(nodes, entries, pool, node, row)
        sizes[tree, 1] -= 1
        if nodes[node, 2] > 0:
            continue
        # Upwards: a node without a child for 0 or 1 gives way to what it has under *.
        kept = _NONE
        while True:
            nodes[node, 1] = pool[1]
            pool[1] = node
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
def _unlink(
    nodes: np.ndarray,
    entries: np.ndarray,
    pool: np.ndarray,
    leaf: int,
    row: int,
) -> None:  # pragma: no cover
    before, entry = _NONE, nodes[leaf, 1]
    while entries[entry, 0] != row:
        before, entry = entry, entries[entry, 1]
    if before == _NONE:
        nodes[leaf, 1] = entries[entry, 1]
    else:
        entries[before, 1] = entries[entry, 1]
    nodes[leaf, 2] -= 1
    entries[entry, 1] = pool[3]
    pool[3] = entry
