"""The frozen form of the equality tree: built from all subscriptions at once, searched in compiled loops.

A subscription is a row of ranks, `STAR` where it does not test an attribute. The rows, sorted level by level, are a
tree, or one tree per bucket where index attributes factor it. `check_tree` asserts that the paths of a tree are its
subscriptions, and that its lists lead to each node once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.matchers.equality_tree import level_kernels as kernels
from whimbrel.matchers.equality_tree.factoring import OTHER, OUTSIDE, Factoring
from whimbrel.matchers.shared.runs import bytes_of

ENTRIES_PER_NODE = 64
"""Successor entries per node, on average, above which a tree is searched without successor sets."""

_TREES, _EVENTS = 8, 8  # how many trees of a factored one are walked, and by how many events each

Path = tuple[int, ...]
"""The ranks on the edges from the root to a node, one per level above it, `STAR` for `*`."""


class FrozenTree:
    """The tree of a table of subscriptions; `levels` are columns of it, from the root down."""

    def __init__(
        self,
        table: Int32s,
        levels: Sequence[int],
        factoring: Factoring,
        collapse: bool,
        successors: bool,
        aggressive: bool,
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
        """Make the successor lists. Return False if they would be too large."""
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
        """Call `fill` with larger and larger buffers until one suffices; None above `ENTRIES_PER_NODE`."""
        capacity = 2 * len(self.nodes) + 64
        while capacity <= 2 * ENTRIES_PER_NODE * (len(self.nodes) + 64):
            buffer = np.empty(capacity, np.int32)
            size = fill(buffer, np.empty(capacity, np.int32))
            if size >= 0:
                return buffer[:size].copy()
            capacity *= 2
        return None

    def _follow_stars(self) -> None:
        """Make the lists of the plain search: the `*` child of every node."""
        star = self.nodes[:, kernels.STAR_CHILD]
        self._list_ends = np.zeros(len(self.nodes) + 1, np.int32)
        np.cumsum(star != kernels.NONE, out=self._list_ends[1:])
        self.lists = star[star != kernels.NONE].copy()

    def _pack(self, collapse: bool) -> None:
        """Lay out the nodes that the search visits; with `collapse`, a node without values is only a list."""
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
        factoring = self.factoring
        self._packed = kernels.PackedTree(
            packed[~stub],
            edges,
            stubs,
            number[self.lists],
            self.rows,
            factoring.attributes,
            factoring.starts,
            factoring.digits,
            factoring.strides,
            self.buckets,
            number[self.roots],
        )
        self._stack = np.empty(len(nodes) + 1, np.int32)

    def run(self, first: Int32s, event: int, most: int, out: Int32s, ends: Int64s, counters: Int64s | None) -> int:
        """Search events from `event` on while `out` has capacity for `most` rows. Return where it stopped."""
        return kernels.run(self._packed, self.successors, first, event, most, self._stack, out, ends, counters)

    def list_of(self, node: int) -> list[int]:
        """The nodes on the list of a node."""
        found: list[int] = self.lists[self._list_ends[node] : self._list_ends[node + 1]].tolist()
        return found

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays that the search reads."""
        return bytes_of(self._packed)


def check_tree(tree: FrozenTree, table: Int32s) -> None:
    """Assert all invariants; `table` holds the subscriptions."""
    where = paths(tree)
    _check_links(tree)
    _check_leaves(tree, table, where)
    assert len(tree.lists) == 0 or 0 <= tree.lists.min() <= tree.lists.max() < len(tree.nodes)
    roots = tree.roots.tolist()
    for root in Random(len(roots)).sample(roots, min(_TREES, len(roots))):
        _check_once(tree, root, where)


def paths(tree: FrozenTree) -> list[tuple[int, Path]]:
    """The bucket and the path of every node; levels that were left out are `*`."""
    buckets = dict(zip(tree.roots.tolist(), tree.buckets.tolist(), strict=True))
    out: list[tuple[int, Path]] = []
    for node, fields in enumerate(tree.nodes.tolist()):
        parent = fields[kernels.PARENT]
        bucket, path = (buckets[node], ()) if parent == kernels.NONE else out[parent]
        if parent != kernels.NONE:
            path = (*path, fields[kernels.LABEL])
        out.append((bucket, path + (kernels.STAR,) * (fields[kernels.LEVEL] - len(path))))
    return out


def _check_links(tree: FrozenTree) -> None:
    """Every node but the roots hangs on exactly one edge, which is its parent's and carries its label."""
    hung: dict[int, tuple[int, int]] = {}
    for node, fields in enumerate(tree.nodes.tolist()):
        edges = tree.edges[fields[kernels.EDGES] : fields[kernels.EDGES_END]].tolist()
        assert [rank for rank, _ in edges] == sorted({rank for rank, _ in edges})
        if fields[kernels.STAR_CHILD] != kernels.NONE:
            edges.append([kernels.STAR, fields[kernels.STAR_CHILD]])
        is_leaf = fields[kernels.LEVEL] == len(tree.levels)
        assert is_leaf != bool(edges), "a leaf with edges, or an inner node without"
        for rank, child in edges:
            assert child not in hung and child > node
            hung[child] = (node, rank)
    roots = set(tree.roots.tolist())
    assert hung.keys() | roots == set(range(len(tree.nodes))) and not hung.keys() & roots
    for child, link in hung.items():
        assert tuple(tree.nodes[child, [kernels.PARENT, kernels.LABEL]].tolist()) == link


def _check_leaves(tree: FrozenTree, table: Int32s, where: list[tuple[int, Path]]) -> None:
    """pred(leaf) is the conjunction of each of its subscriptions, and each has a leaf in every bucket that it fits."""
    indexed = tree.factoring.attributes.tolist()
    tested = set(indexed) | set(tree.levels)
    digits = {bucket: tree.factoring.digits_of(bucket) for bucket in tree.buckets.tolist()}
    found: dict[int, set[int]] = {row: set() for row in range(len(table))}
    for node, (bucket, path) in enumerate(where):
        if len(path) == len(tree.levels):
            for row in tree.rows[tree.nodes[node, kernels.ROWS] : tree.nodes[node, kernels.ROWS_END]].tolist():
                assert tuple(table[row, tree.levels].tolist()) == path and bucket not in found[row]
                found[row].add(bucket)
    for row, buckets in found.items():
        ranks = table[row].tolist()
        assert all(ranks[a] == kernels.STAR for a in range(len(ranks)) if a not in tested)
        wanted = [_digit(tree, place, ranks[column]) for place, column in enumerate(indexed)]
        fitting = {
            bucket for bucket, has in digits.items() if all(w in (None, d) for w, d in zip(wanted, has, strict=True))
        }
        assert buckets == fitting


def _digit(tree: FrozenTree, place: int, rank: int) -> int | None:
    """The digit of a subscription's value of an index attribute, None if it does not test it."""
    if rank == kernels.STAR:
        return None
    digit = int(tree.factoring.digits[tree.factoring.starts[place] + rank])
    assert digit != (OUTSIDE if tree.factoring.closed else OTHER)
    return digit


def _check_once(tree: FrozenTree, root: int, where: list[tuple[int, Path]]) -> None:
    """The search visits no node twice, and misses no leaf."""
    random = Random(root)
    bucket = where[root][0]
    leaves = {n: path for n, (b, path) in enumerate(where) if b == bucket and len(path) == len(tree.levels)}
    pools = [[kernels.NONE, *{path[level] for path in leaves.values()}] for level in range(len(tree.levels))]
    for _ in range(_EVENTS):
        base = random.choice(list(leaves.values()))
        ranks = [rank if rank != kernels.STAR else random.choice(pool) for rank, pool in zip(base, pools, strict=True)]
        seen = _walk(tree, root, ranks)
        assert len(seen) == len(set(seen)), "a node visited twice"
        fitting = {
            leaf
            for leaf, path in leaves.items()
            if all(label in (kernels.STAR, rank) for label, rank in zip(path, ranks, strict=True))
        }
        assert leaves.keys() & set(seen) == fitting


def _walk(tree: FrozenTree, root: int, ranks: list[int]) -> list[int]:
    """The nodes that the compiled search visits or passes through."""
    seen: list[int] = []
    stack = [root]
    while stack:
        node = stack.pop()
        seen.append(node)
        level = int(tree.nodes[node, kernels.LEVEL])
        child = kernels.NONE
        if level < len(tree.levels) and ranks[level] != kernels.NONE:
            edges = tree.edges[tree.nodes[node, kernels.EDGES] : tree.nodes[node, kernels.EDGES_END]].tolist()
            child = dict(edges).get(ranks[level], kernels.NONE)
        if child != kernels.NONE:
            stack.append(child)
        if child == kernels.NONE or not tree.successors:
            stack += tree.list_of(node)
    return seen
