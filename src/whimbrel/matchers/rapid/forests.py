"""The trees of RAPIDMatch and Modified RAPIDMatch: which there are, and the flat arrays that hold them.

Survey, III.C and III.D. For every t = 0..c the k properties fall into t + 1 consecutive blocks of nearly equal size.
Each block has a tree: it holds the subscriptions of at most t ones that have no 1 inside the block, and it tests the
properties outside the block, in cyclic order from the block's end. A subscription is in every tree that it qualifies
for (ERR-7a). Tree 0 tests all properties and holds all subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from whimbrel.compiled.array_types import Int64s
from whimbrel.matchers.rapid.rapid_kernels import (
    NodePool,
    PropertyMasks,
    TreeTable,
    insert_rows,
    remove_row,
    search_tree,
)
from whimbrel.matchers.shared.runs import bytes_of

FULL = 0
"""The number of the tree over all properties."""

_NODES, _ENTRIES, _ROWS = 1_024, 512, 64


@dataclass(frozen=True, slots=True)
class PropertyBlock:
    """A block of properties as a bit mask, and the number of its tree."""

    mask: int
    tree: int


def block_bounds(properties: int, blocks: int) -> Iterator[tuple[int, int]]:
    """The consecutive blocks of properties, the first `properties % blocks` of them one larger.

    >>> list(block_bounds(5, 3))
    [(0, 2), (2, 4), (4, 5)]
    """
    size, larger = divmod(properties, blocks)
    start = 0
    for number in range(blocks):
        stop = start + size + (number < larger)
        yield start, stop
        start = stop


class Forests:
    """All trees over k properties: the full one, a forest of blocks for the ones and, if `mirrored`, one for the zeros.

    `forests[0][t]` are the blocks for events with t ones, `forests[1][t]` those for events with t zeros.
    """

    def __init__(self, properties: int, most: int, mirrored: bool, leaf: int) -> None:
        self.properties = properties
        self.words = max(1, (properties + 63) // 64)
        self.leaf = leaf
        self.forests: list[list[list[PropertyBlock]]] = []
        plans: list[tuple[int, int, int, bool]] = [(0, 0, properties, False)]  # start, stop, limit, mirrored
        for flip in (False, True)[: 1 + mirrored]:
            forest = []
            for t in range(most + 1):
                blocks = []
                for start, stop in block_bounds(properties, t + 1):
                    blocks.append(PropertyBlock((1 << stop) - (1 << start), len(plans)))
                    plans.append((start, stop, t, flip))
                forest.append(blocks)
            self.forests.append(forest)
        self._trees = self._plan(plans)
        self._pool = NodePool(
            np.empty((_NODES, 4), np.int32), np.empty((_ENTRIES, 2), np.int32), np.array([0, -1, 0, -1], np.int64)
        )
        self._masks = PropertyMasks(np.zeros((_ROWS, self.words), np.uint64), np.zeros((_ROWS, self.words), np.uint64))
        self._found = np.empty(_ROWS, np.int32)
        self._stack = np.empty(2 * properties + 8, np.int32)

    def _plan(self, plans: list[tuple[int, int, int, bool]]) -> TreeTable:
        """Make the table of all trees, each of them empty."""
        count, k = len(plans), self.properties
        blocks = np.zeros((count, self.words), np.uint64)
        orders = np.zeros((count, max(1, k)), np.int32)
        for tree, (start, stop, _, _) in enumerate(plans):
            outside = [*range(stop, k), *range(start)]
            orders[tree, : len(outside)] = outside
            blocks[tree] = self._bits((1 << stop) - (1 << start))
        limits = np.array([plan[2] for plan in plans], np.int32)
        mirrored = np.array([plan[3] for plan in plans], np.bool_)
        return TreeTable(np.full(count, -1, np.int32), orders, limits, blocks, mirrored, np.zeros((count, 2), np.int64))

    def _bits(self, mask: int) -> np.ndarray:
        return np.frombuffer(mask.to_bytes(8 * self.words, "little"), np.uint64)

    def insert(self, rows: Mapping[int, tuple[int, int]]) -> None:
        """Store the masks of new rows (ones and zeros) and put them into every tree that they qualify for."""
        self._reserve(max(rows, default=0) + 1)
        for row, (ones, zeros) in rows.items():
            self._masks.ones[row] = self._bits(ones)
            self._masks.zeros[row] = self._bits(zeros)
        left = np.array(list(rows), np.int64)
        while left.size:
            done = insert_rows(left, self.leaf, self._pool, self._masks, self._trees)
            left = left[done:]
            if left.size:
                nodes, entries, used = self._pool
                self._pool = NodePool(_grown(nodes, 2 * len(nodes)), _grown(entries, 2 * len(entries)), used)

    def remove(self, row: int) -> None:
        """Take a row out of all trees."""
        remove_row(row, self._pool, self._masks, self._trees)

    def search(self, tree: int, ones: int, zeros: int, counters: Int64s | None) -> list[int]:
        """The rows in a tree that hold for an event of these ones and zeros; adds nodes and compares to `counters`."""
        event = np.empty((2, self.words), np.uint64)
        event[0] = self._bits(ones)
        event[1] = self._bits(zeros)
        arrays = self._pool, self._masks, self._trees
        matched = search_tree(tree, event, *arrays, self._stack, self._found, counters)
        return self._found[:matched].tolist()  # type: ignore[no-any-return]

    def nodes(self, tree: int) -> int:
        """How many nodes a tree has."""
        return int(self._trees.sizes[tree, 0])

    def size(self) -> tuple[int, int, int]:
        """Nodes and entries of all trees, and the bytes of the arrays."""
        nodes, entries = self._trees.sizes.sum(axis=0).tolist()
        return nodes, entries, bytes_of(self._pool, self._masks, self._trees, self._found, self._stack)

    def _reserve(self, rows: int) -> None:
        held = len(self._found)
        if rows > held:
            capacity = max(rows, 2 * held)
            self._masks = PropertyMasks(*(_grown(masks, capacity) for masks in self._masks))
            self._found = np.empty(capacity, np.int32)

    def check(self, rows: dict[int, tuple[int, int]]) -> None:
        """Assert that every tree holds the rows that qualify, each where its masks lead, and that sizes are right."""
        for tree in range(len(self._trees.roots)):
            held = {row: masks[::-1] if self._trees.mirrored[tree] else masks for row, masks in rows.items()}
            block = int.from_bytes(self._trees.blocks[tree].tobytes(), "little")
            expected = {
                row
                for row, (ones, _) in held.items()
                if ones.bit_count() <= self._trees.limits[tree] and not ones & block
            }
            nodes, found = self._walk(tree, int(self._trees.roots[tree]), 0, held, block)
            assert sorted(found) == sorted(expected)
            assert (nodes, len(found)) == tuple(self._trees.sizes[tree])

    def _walk(
        self, tree: int, node: int, start: int, held: dict[int, tuple[int, int]], block: int
    ) -> tuple[int, list[int]]:
        if node < 0:
            return 0, []
        position, *children = self._pool.nodes[node].tolist()
        if position < 0:
            entry, count, _ = children
            rows = []
            while entry >= 0:
                row, entry = self._pool.entries[entry].tolist()
                rows.append(row)
            assert len(rows) == count > 0
            alike = {(held[row][0] & ~block, held[row][1] & ~block) for row in rows}
            assert count <= self.leaf or len(alike) == 1
            return 1, rows
        assert position >= start and (children[1] >= 0 or children[2] >= 0)
        total, found = 1, []
        bit = 1 << int(self._trees.orders[tree, position])
        for value, child in zip(("*", "0", "1"), children, strict=True):
            nodes, rows = self._walk(tree, child, position + 1, held, block)
            total += nodes
            found += rows
            for row in rows:
                ones, zeros = held[row]
                assert ("1" if ones & bit else "0" if zeros & bit else "*") == value
        return total, found


def _grown(array: np.ndarray, rows: int) -> np.ndarray:
    out = np.zeros((rows, *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out
