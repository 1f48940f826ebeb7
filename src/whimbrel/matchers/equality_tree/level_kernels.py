"""The loops of the equality tree, in Numba on flat arrays: grow it, relate its nodes, refine the lists, search.

The rows are the subscriptions, one column per level, `STAR` where an attribute is not tested, sorted with `STAR` first.
Nodes are numbered in preorder, `*` before the values, so that every node that generalises another has a lower number.
The edges of a node are contiguous and sorted by rank: (rank, child). A kernel that builds writes into buffers and says
-1 when one of them is full; the caller doubles them and calls again. That compiles in a fraction of the time that
growing arrays inside would take.
"""

from __future__ import annotations

from typing import NamedTuple

from whimbrel.compiled.array_types import Int32s, Int64s
from whimbrel.compiled.helpers import lower_bound
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.matchers.shared.runs import find_edge

STAR = -1
NONE = -1

# The fields of a node. A leaf has LEVEL = number of levels; ROWS are those below it; LABEL is the rank above it.
LEVEL, EDGES, EDGES_END, STAR_CHILD, ROWS, ROWS_END, PARENT, LABEL = range(8)
FIELDS = 8

# What the search reads: the attribute or NONE; edges, or a leaf's rows; the list of a node.
TEST, FIRST, END, LIST, LIST_END = range(5)
PACKED = 5


@helper
def _put(work: Int32s, place: int, low: int, high: int, level: int, parent: int, slot: int) -> None:
    work[place, 0] = low
    work[place, 1] = high
    work[place, 2] = level
    work[place, 3] = parent
    work[place, 4] = slot


@helper
def _add_edges(rows: Int32s, level: int, row: int, high: int, edges: Int32s, edge: int) -> int:
    """Add an edge for each value of a level in rows[row:high]. Return the number of edges, or -1 if they are full.

    An edge has the first row of its value until the child has a number.
    """
    while row < high:
        if edge == edges.shape[0]:
            return -1
        rank = rows[row, level]
        edges[edge, 0] = rank
        edges[edge, 1] = row
        edge += 1
        while row < high and rows[row, level] == rank:
            row += 1
    return edge


@kernel
def grow(
    rows: Int32s,
    starts: Int32s,
    collapse: bool,
    stubs: bool,
    nodes: Int32s,
    edges: Int32s,
    work: Int32s,
    roots: Int32s,
) -> tuple[int, int]:
    """Grow one tree from each stretch of rows that `starts` begins; return the number of nodes and of edges.

    With `collapse` a node that has only a `*` edge is left out; with `stubs` only where a `*` edge leads to it, because
    one that a value leads to has successors of its own.
    """
    levels = rows.shape[1]
    node = edge = top = 0
    for tree in range(roots.size - 1, -1, -1):
        _put(work, top, starts[tree], starts[tree + 1], 0, NONE, tree)
        top += 1
    while top:
        top -= 1
        low, high, level, parent, slot = work[top, 0], work[top, 1], work[top, 2], work[top, 3], work[top, 4]
        by_value = parent != NONE and slot != NONE  # noqa: PLR1714 - compiles faster
        if collapse and not (by_value and stubs):
            while level < levels and rows[high - 1, level] == STAR:
                level += 1
        if node == nodes.shape[0]:
            return -1, edge
        nodes[node, LEVEL] = level
        nodes[node, EDGES] = edge
        nodes[node, STAR_CHILD] = NONE
        nodes[node, ROWS] = low
        nodes[node, ROWS_END] = high
        nodes[node, PARENT] = parent
        nodes[node, LABEL] = edges[slot, 0] if by_value else STAR
        if parent == NONE:
            roots[slot] = node
        elif by_value:
            edges[slot, 1] = node
        else:
            nodes[parent, STAR_CHILD] = node
        if level < levels:
            stars_end = low
            while stars_end < high and rows[stars_end, level] == STAR:
                stars_end += 1
            edge = _add_edges(rows, level, stars_end, high, edges, edge)
            if edge < 0:
                return -1, edge
            if top + edge - nodes[node, EDGES] >= work.shape[0]:
                return -1, edge
            for slot in range(edge - 1, nodes[node, EDGES] - 1, -1):
                _put(work, top, edges[slot, 1], high, level + 1, node, slot)
                high = edges[slot, 1]
                top += 1
            if stars_end > low:
                _put(work, top, low, stars_end, level + 1, node, NONE)
                top += 1
        nodes[node, EDGES_END] = edge
        node += 1
    return node, edge


@helper
def _push(work: Int32s, top: int, found: Int32s, low: int, high: int) -> int:
    """Push found[low:high]; the new top, or -1 if the buffer is full."""
    if top + high - low > work.size:
        return -1
    for place in range(low, high):
        work[top] = found[place]
        top += 1
    return top


@kernel
def relate(nodes: Int32s, edges: Int32s, start: Int32s, found: Int32s, work: Int32s) -> int:
    """Fill the CSR of every node's successors but for its own `*` child, resolved (section 5.2); return the entries.

    With T(P) known for the parent P of N, and x the value between them, T(N) is P's `*` child and what each X of T(P)
    becomes under x: its child by x or, where it has none, its `*` child and what the nodes of T(X) become. An X that
    lies deeper, because the `*` nodes above it were left out, stays.
    """
    size = 0
    for node in range(nodes.shape[0]):
        start[node] = size
        parent, rank = nodes[node, PARENT], nodes[node, LABEL]
        if rank == STAR:
            continue
        top = _push(work, 0, found, start[parent], start[parent + 1])
        item = nodes[parent, STAR_CHILD]
        while top != 0 or item != NONE:
            if item == NONE and top > 0:
                top -= 1
                other = work[top]
                item = other
                if nodes[other, LEVEL] == nodes[parent, LEVEL]:
                    item = find_edge(edges, nodes[other, EDGES], nodes[other, EDGES_END], rank)
                    if item == NONE:
                        top = _push(work, top, found, start[other], start[other + 1])
                        item = nodes[other, STAR_CHILD]
            if top < 0 or size == found.size:
                return -1
            if item != NONE:
                found[size] = item
                size += 1
                item = NONE
        start[node + 1] = size
    start[nodes.shape[0]] = size
    return size


@helper
def _is_part(nodes: Int32s, edges: Int32s, one: int, other: int) -> bool:
    """Whether every value that leaves node `one` leaves node `other` too."""
    place, end = nodes[other, EDGES], nodes[other, EDGES_END]
    for edge in range(nodes[one, EDGES], nodes[one, EDGES_END]):
        while place < end and edges[place, 0] < edges[edge, 0]:
            place += 1
        if place == end or edges[place, 0] != edges[edge, 0]:
            return False
    return True


@kernel
def refine(
    nodes: Int32s,
    edges: Int32s,
    start: Int32s,
    found: Int32s,
    levels: int,
    collapse: bool,
    aggressive: bool,
    ends: Int32s,
    lists: Int32s,
    work: Int32s,
) -> int:
    """Fill the CSR of the final lists, in which a successor that must be blocked too gives way to its own.

    With `collapse` that is every node without values, with `aggressive` every node whose values are among those of the
    node that was blocked (section 5.3). The `*` child comes last. Returns the entries.
    """
    size = 0
    for node in range(nodes.shape[0]):
        ends[node] = size
        top = _push(work, 0, found, start[node], start[node + 1])
        while top != 0:
            if top < 0:
                return -1
            top -= 1
            other = work[top]
            if nodes[other, LEVEL] == nodes[node, LEVEL] and nodes[other, LEVEL] < levels:
                hollow = nodes[other, EDGES] == nodes[other, EDGES_END]
                if (collapse and hollow) or (aggressive and _is_part(nodes, edges, other, node)):
                    top = _push(work, top, found, start[other], start[other + 1])
                    other = nodes[other, STAR_CHILD]
            if size == lists.size:
                return -1
            if other != NONE:
                lists[size] = other
                size += 1
        if nodes[node, STAR_CHILD] != NONE:
            if size == lists.size:
                return -1
            lists[size] = nodes[node, STAR_CHILD]
            size += 1
    ends[nodes.shape[0]] = size
    return size


class PackedTree(NamedTuple):
    """What the search reads. The four arrays from `attributes` on give the key of an event; `buckets` are all keys."""

    nodes: Int32s  # [node, PACKED]
    edges: Int32s
    stubs: Int32s  # [stub, 2]: its list
    lists: Int32s
    rows: Int32s
    attributes: Int32s
    starts: Int32s
    digits: Int32s
    strides: Int64s
    buckets: Int64s
    roots: Int32s


@inlined
def _stack_all(stack: Int32s, top: int, lists: Int32s, first: int, last: int) -> int:
    """Put lists[first:last] on the stack and return its top."""
    for place in range(first, last):
        stack[top] = lists[place]
        top += 1
    return top


@inlined
def search(
    tree: PackedTree,
    successors: bool,
    values: Int32s,
    root: int,
    stack: Int32s,
    out: Int32s,
    size: int,
    counters: Int64s | None,
) -> int:
    """Append the rows that an event satisfies to `out`, which holds `size` rows. Return how many it holds then.

    Plain: the child by the event's value and the list, which is the `*` child. With successors: the child by the
    event's value and nothing else or, where there is none, the list. A child below NONE is a stub, which is nothing but
    a list.
    """
    packed, edges, lists = tree.nodes, tree.edges, tree.lists
    visited = comparisons = 0
    stack[0] = root
    top = 1
    while top:
        top -= 1
        node = stack[top]
        visited += 1
        attribute, low, high = packed[node, TEST], packed[node, FIRST], packed[node, END]
        child = NONE
        if attribute == NONE:
            for place in range(low, high):
                out[size] = tree.rows[place]
                size += 1
        else:
            rank = values[attribute]
            while high - low > 8:
                middle = (low + high) >> 1
                comparisons += 1
                if edges[middle, 0] <= rank:
                    low = middle
                else:
                    high = middle
            while low < high:
                comparisons += 1
                if edges[low, 0] >= rank:
                    if edges[low, 0] == rank:
                        child = edges[low, 1]
                    break
                low += 1
        if child == NONE or not successors:
            top = _stack_all(stack, top, lists, packed[node, LIST], packed[node, LIST_END])
        if child >= 0:
            stack[top] = child
            top += 1
        elif child != NONE:
            top = _stack_all(stack, top, lists, tree.stubs[-2 - child, 0], tree.stubs[-2 - child, 1])
    if counters is not None:
        counters[0] += visited
        counters[1] += comparisons
    return size


@kernel
def run(
    tree: PackedTree,
    successors: bool,
    first: Int32s,
    event: int,
    most: int,
    stack: Int32s,
    out: Int32s,
    ends: Int64s,
    counters: Int64s | None,
) -> int:
    """Search events from `event` on, each in the tree of its bucket, while `out` holds `most` rows more."""
    buckets, size = tree.buckets, 0
    while event < first.shape[0] and size + most <= out.size:
        key = 0
        for place in range(tree.attributes.size):
            rank = first[event, tree.attributes[place]]
            if rank != NONE:
                key += tree.digits[tree.starts[place] + rank] * tree.strides[place]
        bucket = lower_bound(buckets, 0, buckets.size, key)
        if bucket < buckets.size and buckets[bucket] == key:
            size = search(tree, successors, first[event], tree.roots[bucket], stack, out, size, counters)
        ends[event] = size
        event += 1
    return event
