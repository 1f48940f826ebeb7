"""Assertions on a frozen equality tree: its paths are the subscriptions, and its lists lead to each node once."""

from __future__ import annotations

from random import Random

from whimbrel.matchers.equality_tree import level_kernels as kernels
from whimbrel.matchers.equality_tree.factoring import OTHER
from whimbrel.matchers.equality_tree.level_tree import FrozenTree
from whimbrel.matchers.runs import Int32s

_TREES, _EVENTS = 8, 8  # how many trees of a factored one are walked, and by how many events each

Path = tuple[int, ...]
"""The ranks on the edges from the root to a node, one per level above it, `STAR` for `*`."""


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
    assert digit != OTHER
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
    """The nodes that the compiled search visits, and those that it passes through."""
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
