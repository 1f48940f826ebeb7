"""The frozen form of the equality tree: built from all subscriptions at once, searched in compiled loops.

A subscription is a row of ranks, `STAR` where it does not test an attribute. The rows, sorted level by level, are a
tree, or one tree per bucket where index attributes factor it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from whimbrel.matchers.equality_tree import level_kernels as kernels
from whimbrel.matchers.equality_tree.factoring import Factoring
from whimbrel.matchers.runs import Int32s, Int64s

ENTRIES_PER_NODE = 64
"""Successor entries per node, on average, above which a tree is searched without successor sets."""


class FrozenTree:
    """The tree of a table of subscriptions; `levels` are columns of it, from the root down."""

    def __init__(
        self,
        table: Int32s,
        levels: Sequence[int],
        factoring: Factoring,
        collapse: bool = True,
        successors: bool = True,
        aggressive: bool = True,
    ) -> None:
        self.levels = list(levels)
        self.factoring = factoring
        columns = table[:, self.levels]
        order = np.lexsort((*columns[factoring.rows].T[::-1], factoring.keys))
        self.rows: Int32s = factoring.rows[order].astype(np.int32)
        keys = factoring.keys[order]
        starts = np.flatnonzero(np.diff(keys, prepend=-1, append=-1)).astype(np.int32)
        self.buckets: Int64s = keys[starts[:-1]]
        self._grow(np.ascontiguousarray(columns[self.rows]), starts, collapse, successors)
        self.successors = successors and self._relate(len(self.levels), collapse, aggressive)
        if not self.successors:
            self._follow_stars()
        self._pack(collapse)

    def _grow(self, sorted_rows: Int32s, starts: Int32s, collapse: bool, successors: bool) -> None:
        self.roots = np.empty(len(self.buckets), np.int32)
        capacity = 4 * len(sorted_rows) + 64
        while True:
            nodes = np.empty((capacity, kernels.FIELDS), np.int32)
            edges = np.empty((capacity, 2), np.int32)
            work = np.empty((capacity, 5), np.int32)
            node_count, edge_count = kernels.grow(
                sorted_rows, starts, collapse, successors, nodes, edges, work, self.roots
            )
            if node_count >= 0:
                break
            capacity *= 2
        self.nodes, self.edges = nodes[:node_count].copy(), edges[:edge_count].copy()

    def _relate(self, levels: int, collapse: bool, aggressive: bool) -> bool:
        """Make the successor lists; False if they would be too large."""
        count = len(self.nodes)
        start, ends = np.zeros(count + 1, np.int32), np.zeros(count + 1, np.int32)
        found = self._fitted(lambda *buffers: kernels.relate(self.nodes, self.edges, start, *buffers))
        if found is None:
            return False
        lists = self._fitted(
            lambda *buffers: kernels.refine(
                self.nodes, self.edges, start, found, levels, collapse, aggressive, ends, *buffers
            )
        )
        if lists is None:
            return False
        self._list_ends, self.lists = ends, lists
        return True

    def _fitted(self, fill: Callable[[Int32s, Int32s], int]) -> Int32s | None:
        """What `fill` writes into a buffer that is large enough, or None above `ENTRIES_PER_NODE`."""
        capacity = 2 * len(self.nodes) + 64
        while capacity <= 2 * ENTRIES_PER_NODE * (len(self.nodes) + 64):
            buffer = np.empty(capacity, np.int32)
            size = fill(buffer, np.empty(capacity, np.int32))
            if size >= 0:
                return buffer[:size].copy()
            capacity *= 2
        return None

    def _follow_stars(self) -> None:
        """Lists for the plain search: the `*` child of every node."""
        star = self.nodes[:, kernels.STAR_CHILD]
        self._list_ends = np.zeros(len(self.nodes) + 1, np.int32)
        np.cumsum(star != kernels.NONE, out=self._list_ends[1:])
        self.lists = star[star != kernels.NONE].copy()

    def _pack(self, collapse: bool) -> None:
        """What the search reads: only nodes that it visits; with `collapse`, nodes without values are but lists."""
        nodes = self.nodes
        leaf = nodes[:, kernels.LEVEL] == len(self.levels)
        stub = collapse & ~leaf & (nodes[:, kernels.EDGES] == nodes[:, kernels.EDGES_END])
        packed = np.empty((len(nodes), kernels.PACKED), np.int32)
        packed[:, kernels.TEST] = np.array([*self.levels, kernels.NONE], np.int32)[nodes[:, kernels.LEVEL]]
        packed[:, kernels.FIRST] = np.where(leaf, nodes[:, kernels.ROWS], nodes[:, kernels.EDGES])
        packed[:, kernels.END] = np.where(leaf, nodes[:, kernels.ROWS_END], nodes[:, kernels.EDGES_END])
        packed[:, kernels.LIST] = self._list_ends[:-1]
        packed[:, kernels.LIST_END] = self._list_ends[1:]
        number = np.where(stub, kernels.NONE - np.cumsum(stub), np.cumsum(~stub) - 1).astype(np.int32)
        edges = self.edges.copy()
        edges[:, 1] = number[edges[:, 1]]
        stubs = packed[stub][:, [kernels.LIST, kernels.LIST_END]]
        self._packed = packed[~stub], edges, stubs, number[self.lists], self.rows
        self._packed_roots = number[self.roots]
        self._stack = np.empty(len(nodes) + 1, np.int32)

    def run(self, first: Int32s, event: int, most: int, out: Int32s, ends: Int64s, counters: Int64s | None) -> int:
        """Search events by their ranks, from `event` on, while `out` has capacity for `most` rows; where it stopped."""
        factoring = self.factoring
        return int(
            kernels.run(
                *self._packed, self.successors, factoring.attributes, factoring.starts, factoring.digits,
                factoring.strides, self.buckets, self._packed_roots, first, event, most, self._stack, out, ends,
                counters,
            )
        )  # fmt: skip

    def list_of(self, node: int) -> list[int]:
        """The nodes on the list of a node."""
        found: list[int] = self.lists[self._list_ends[node] : self._list_ends[node + 1]].tolist()
        return found

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays that the search reads."""
        arrays = (*self._packed, self.factoring.digits, self.buckets, self._packed_roots)
        return sum(array.nbytes for array in arrays)
