"""The compiled part of matching and forwarding on a frozen tree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32s, Int64s
from whimbrel.compiled.helpers import lower_bound
from whimbrel.compiled.jit import helper, kernel, quick_kernel


class MatchArrays(NamedTuple):
    """What matching reads. Node 0 is the root; numbers are in preorder, so what is below a node follows it.

    `lanes[n] : lanes[n + 1]` are the lanes of node n, sorted by `lane_attribute`; `entries[l] : entries[l + 1]` are
    the intervals of lane l, sorted: the values with `lows < rank <= highs` go to `children`. `patterns[n] : patterns[n
    + 1]` are its children with patterns: which pattern, which child.
    """

    depth: Int32s
    lanes: Int32s
    lane_attribute: Int32s
    entries: Int32s
    lows: Int32s
    highs: Int32s
    children: Int32s
    patterns: Int32s
    pattern: Int32s
    pattern_child: Int32s


class ForwardArrays(NamedTuple):
    """What forwarding reads. `following[n]` is the first node after n that is not below it.

    `ends[n] : ends[n + 1]` are the filters that end at node n.
    """

    depth: Int32s
    following: Int32s
    ends: Int32s
    end_filter: Int32s


@kernel
def match_tree(
    tree: MatchArrays,
    attributes: Int32s,
    ranges: Int32s,
    ranks: Int32s,
    fits: Bytes,
    limit: int,
    seen: Int64s,
    stamp: int,
    out: Int32s,
) -> tuple[int, int]:  # pragma: no cover
    """Write the nodes that an event satisfies. Returns how many, and the comparisons that were made.

    `attributes` of the event are sorted; the ranks of attribute k are ranks[ranges[k] : ranges[k + 1]]. `fits` says
    which patterns hold. Nodes at depth `limit` are not expanded. `out` is stack and result: a node is written once and
    read once.
    """
    count = 1
    out[0] = 0
    place = 0
    compared = 0
    while place < count:
        node = out[place]
        place += 1
        if tree.depth[node] == limit:
            continue
        lane = tree.lanes[node]
        lane_end = tree.lanes[node + 1]
        k = 0
        while lane < lane_end and k < attributes.size:
            name = tree.lane_attribute[lane]
            if attributes[k] < name:
                k += 1
                continue
            if attributes[k] > name:
                if lane_end - lane > 8:  # many lanes: search for the next attribute
                    compared += 4
                    lane = lower_bound(tree.lane_attribute, lane, lane_end, attributes[k])
                else:
                    lane += 1
                continue
            start = tree.entries[lane]
            end = tree.entries[lane + 1]
            for value in range(ranges[k], ranges[k + 1]):
                rank = ranks[value]
                width = end - start
                while width > 0:
                    compared += 1
                    width >>= 1
                entry = lower_bound(tree.lows, start, end, rank) - 1  # the last interval that begins below the rank
                if entry >= start and rank <= tree.highs[entry]:
                    child = tree.children[entry]
                    if seen[child] != stamp:
                        seen[child] = stamp
                        out[count] = child
                        count += 1
            lane += 1
            k += 1
        for entry in range(tree.patterns[node], tree.patterns[node + 1]):
            if fits[tree.pattern[entry]]:
                out[count] = tree.pattern_child[entry]
                count += 1
    return count, compared


@quick_kernel
def forward_tree(
    tree: ForwardArrays, nodes: Int32s, limit: int, masks: Int64s, wanted: int
) -> tuple[int, int]:  # pragma: no cover
    """The interfaces, as bits, of the filters that end at nodes of a prefix, and how many nodes and filters were read.

    `masks` has the interfaces of each filter. Stops when all `wanted` bits are found. A node at depth `limit` stands
    for all that is below it.
    """
    found = 0
    read = 0
    for place in range(-1, nodes.size):
        node = 0 if place < 0 else nodes[place]
        last = tree.following[node] if tree.depth[node] == limit else node + 1
        read += 1
        for end in range(tree.ends[node], tree.ends[last]):
            found |= masks[tree.end_filter[end]]
            read += 1
            if found & wanted == wanted:
                return found, read
    return found, read


@helper
def read_number(data: Bytes, at: int) -> tuple[np.int64, int]:  # pragma: no cover
    """The number below 2^35 at a place of the bytes, seven bits a byte, and the place after it; -1 if there is none."""
    number = np.int64(0)
    shift = 0
    while 0 <= at < data.size and shift <= 28:
        byte = np.int64(data[at])
        at += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number, at
    return np.int64(0), -1


@helper
def read_run(data: Bytes, at: int, before: np.int64) -> tuple[np.int64, np.int64, int]:  # pragma: no cover
    """The first and last of the next consecutive numbers, after `before`, and the place after them; -1 if wrong."""
    step, at = read_number(data, at)
    if step > 0 and at >= 0:
        return before + step, before + step, at
    more, at = read_number(data, at)
    return before + 1, before + more, at if more > 0 else -1


@quick_kernel
def forward_coded(
    tree: ForwardArrays, data: Bytes, at: int, most: int, masks: Int64s, wanted: int
) -> tuple[int, int]:  # pragma: no cover
    """As `forward_tree`, of a prefix without a limit that is still coded: two counts from a place on, then nodes.

    Returns -1 as what was read if the bytes are wrong as far as they were read, or count more than `most` nodes.
    """
    count, at = read_number(data, at)
    others, at = read_number(data, at)
    if at < 0 or count + others > most:
        return 0, -1
    found = 0
    read = 0
    first = last = np.int64(0)
    place = np.int64(0)
    while True:
        for node in range(first, last + 1):
            read += 1
            for end in range(tree.ends[node], tree.ends[node + 1]):
                found |= masks[tree.end_filter[end]]
                read += 1
                if found & wanted == wanted:
                    return found, read
        if place == count:
            return found, read
        first, last, at = read_run(data, at, last)
        place += last - first + 1
        if at < 0 or place > count or last >= tree.depth.size:
            return 0, -1


@kernel
def list_filters(
    tree: ForwardArrays, nodes: Int32s, limit: int, masks: Int64s, bit: int, out: Int32s
) -> tuple[int, int]:  # pragma: no cover
    """Write the filters of one interface that end at nodes of a prefix. Return how many, and what was read.

    `out` has the capacity for every filter; one that ends at several nodes is written once.
    """
    count = 0
    read = 0
    seen = np.zeros(masks.size, np.uint8)
    for place in range(-1, nodes.size):
        node = 0 if place < 0 else nodes[place]
        last = tree.following[node] if tree.depth[node] == limit else node + 1
        read += 1
        for end in range(tree.ends[node], tree.ends[last]):
            filter = tree.end_filter[end]
            read += 1
            if masks[filter] & bit and not seen[filter]:
                seen[filter] = 1
                out[count] = filter
                count += 1
    return count, read


@quick_kernel
def encode_steps(numbers: Int32s, at: int, out: Bytes) -> int:  # pragma: no cover
    """Write increasing numbers as differences, seven bits a byte, from a place on. Returns the place after them.

    Four and more differences of 1 are a 0 and how many they are: a chain of nodes has consecutive numbers.
    """
    before = 0
    place = 0
    while place < numbers.size:
        run = 0
        while place + run < numbers.size and numbers[place + run] == before + run + 1:
            run += 1
        if run >= 4:
            out[at] = 0
            at += 1
            rest = run
            place += run
        else:
            rest = numbers[place] - before
            place += 1
        before = numbers[place - 1]
        while rest > 127:
            out[at] = rest & 127 | 128
            at += 1
            rest >>= 7
        out[at] = rest
        at += 1
    return at


@quick_kernel
def decode_steps(data: Bytes, at: int, out: Int32s) -> int:  # pragma: no cover
    """Read the numbers that `encode_steps` wrote. Returns the place after them, or -1 if they are wrong."""
    last = np.int64(0)
    place = np.int64(0)
    while place < out.size:
        first, last, at = read_run(data, at, last)
        if at < 0 or last > 2147483647 or place + last - first + 1 > out.size:
            return -1
        for number in range(first, last + 1):
            out[place] = number
            place += 1
    return at
