"""The kernels that find the fragments of a trie in texts.

At the end of a path the rest of the fragment, its tail (see trie_build_kernels.py), is compared with the text. Tails of
inside fragments, which may begin anywhere (Aho and Corasick, 1975), are short, so that each byte of the text takes
bounded time. No path leads on from a node with a tail, so at most one tail is compared for each place where a fragment
may begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int32Matrix, Int32s, Int64Matrix, Int64s, Uint64s
from whimbrel.compiled.helpers import Integer, shared
from whimbrel.compiled.jit import helper, inlined, kernel
from whimbrel.compiled.views import tuple_of_arrays, view
from whimbrel.ranks.patterns.rule_kernels import BEGIN, PROGRAM, RULE_RANK, is_found, is_like, pairs_of
from whimbrel.ranks.patterns.trie_build_kernels import CUT, FAIL, WHOLE, child_of, step


class TrieArrays(NamedTuple):
    """The arrays of a trie."""

    nodes: Int32Matrix  # [n + 1, 4]: see trie_build_kernels
    labels: Bytes  # [n + 1]: the byte that leads to a node
    fragment: Int32s  # [n + 1]: the fragment that ends at a node, or -1
    classes: Bytes  # [256]: the class of each byte
    dense: Int32Matrix  # [m, classes]: the next node from each of the first nodes
    fragments: Int64Matrix  # [f, 5]: the columns below
    known: Bytes  # the bytes of all fragments
    rule_first: Int32s  # [f + 2]: where the rules of each fragment begin, then the rules that decide every text
    rules: Int32s  # the rules of all fragments
    rule_table: Int64Matrix  # [rules, 4]: see pattern_rules
    programs: Uint64s  # the programs of regular expressions
    rule_pairs: Uint64s  # [rules]: the bits of pairs of bytes that a text must have


TRIE = tuple_of_arrays(TrieArrays, False)
START, LENGTH, DEPTH, SOME, EVERY = 0, 1, 2, 3, 4
"""Columns of a fragment: where its text begins, its length, the depth of its node, and its ranks, or 0."""
_FEW = 8
"""Up to this many fragments of a text are searched one by one."""

MOST_FOUND = 64
"""Fragments of a text for which searches have space at first; a power of two."""

_trie = view(TRIE)


@helper
def _place(table: Int64s, mask: int, number: Integer) -> Integer:
    """The place of a fragment in a hash table, or the free place where it belongs."""
    at = (number * 0x9E3779B1 >> 7) & mask
    while table[at] >= 0 and table[at] != number:
        at = (at + 1) & mask
    return at


@inlined
def _add(found: Int64s, count: int, table: Int64s, number: Integer) -> int:
    """Add a fragment to the first `count` of `found` unless it is there; return the new count, or -1 without space.

    If there are more than a few, they are in the hash table too, which is four times as large as `found`.
    """
    if count <= _FEW:
        for i in range(count):
            if found[i] == number:
                return count
    elif table[_place(table, table.size - 1, number)] >= 0:
        return count
    if count == found.size:
        return -1
    found[count] = number
    count += 1
    if count > _FEW:
        first = count - 1
        if count == _FEW + 1:
            first = 0
            for i in range(table.size):
                table[i] = -1
        for i in range(first, count):
            table[_place(table, table.size - 1, found[i])] = found[i]
    return count


@inlined
def _find_inside(trie: TrieArrays, data: Bytes, start: int, end: int, found: Int64s, table: Int64s) -> int:
    """Find the fragments that a text has anywhere, each once; how many, or -1 if there is no space."""
    nodes, labels, fragment, classes, dense, fragments, known = trie[:7]
    node: Integer = np.int64(0)
    rows = dense.shape[0]
    count = 0
    for at in range(start, end):
        if node < rows:  # done here and not in `step`: a call with so many arrays takes longer than this
            node = np.int64(dense[np.uint64(node), np.uint64(classes[data[at]])])  # unsigned: no negative index
        else:
            node = step(nodes, labels, classes, dense, node, data[at])
        if nodes[np.uint64(node), WHOLE] | nodes[np.uint64(node), CUT] == 0:
            continue
        hit = np.int64(nodes[node, WHOLE])
        while hit != 0:
            before = count
            count = _add(found, count, table, np.int64(fragment[hit]))
            if count == before:  # it was known, and so are all that follow
                break
            if count < 0:
                return -1
            hit = np.int64(nodes[nodes[hit, FAIL], WHOLE])
        hit = np.int64(nodes[node, CUT])
        while hit != 0:
            p = np.int64(fragment[hit])
            rest = fragments[p, LENGTH] - fragments[p, DEPTH]
            if (
                at + 1 + rest <= end
                and shared(known, fragments[p, START] + fragments[p, DEPTH], data, at + 1, rest) == rest
            ):
                count = _add(found, count, table, p)
                if count < 0:
                    return -1
            hit = np.int64(nodes[nodes[hit, FAIL], CUT])
    return count


@inlined
def _find_ends(trie: TrieArrays, data: Bytes, start: int, end: int, found: Int64s) -> int:
    """Find the fragments that a text ends with, which the trie has backwards; how many, or -1 if there is no space."""
    nodes, labels, fragment, classes, dense, fragments, known = trie[:7]
    node: Integer = np.int64(0)
    count = 0
    at = end - 1
    while at >= start:
        if node < dense.shape[0]:
            node = np.int64(dense[node, classes[data[at]]])
        else:
            node = child_of(nodes, labels, node, data[at])
        if node == 0:
            break
        p = np.int64(fragment[node])
        if p >= 0:
            rest = fragments[p, LENGTH] - fragments[p, DEPTH]
            if at - rest >= start and shared(known, fragments[p, START], data, at - rest, rest) == rest:
                if count == found.size:
                    return -1
                found[count] = p
                count += 1
        at -= 1
    return count


@inlined
def _decide(
    trie: TrieArrays, f: Integer, data: Bytes, start: int, end: int, pairs: np.uint64, ranks: Int32s,
    begin: int, n: int,
) -> int:  # fmt: skip
    """Append the ranks of the rules of fragment f that the text matches; ranks[begin:n] are those of the text so far.

    `pairs` are the bits of the text, which rule out most rules. Returns the new number of ranks, or -1 if there is no
    space.
    """
    for i in range(trie.rule_first[f], trie.rule_first[f + 1]):
        rule = trie.rules[i]
        if trie.rule_pairs[rule] & ~pairs:
            continue
        program, at = trie.rule_table[rule, PROGRAM], trie.rule_table[rule, BEGIN]
        rank = np.int32(trie.rule_table[rule, RULE_RANK])
        fits = True
        if program >= 0:  # with several keys it may be decided already
            for k in range(begin, n):
                fits &= ranks[k] != rank
            fits = fits and is_found(trie.programs, program, data, start, end)
        else:
            fits = is_like(trie.known, at, at + trie.rule_table[rule, LENGTH], data, start, end)
        if fits:
            if n == ranks.size:
                return -1
            ranks[n] = rank
            n += 1
    return n


class SearchBuffers(NamedTuple):
    """The buffers that searches write: the fragments of a text, a hash table of them, and the ranks of all texts."""

    found: Int64s
    table: Int64s  # four times as large, and so large that a mask gives places
    ranks: Int32s


@inlined
def append_ranks(trie: TrieArrays, kind: int, data: Bytes, start: int, end: int, buffers: SearchBuffers, n: int) -> int:
    """Append the ranks of the fragments of a text behind the first `n`; `kind` as in `find_fragments`.

    Returns the new number of ranks, or -1 if some buffer is too small. Buffers do not grow here: an array variable that
    changes in a loop is reference-counted, which takes longer than the search.
    """
    found, table, ranks = buffers
    if kind & 1:
        count = _find_inside(trie, data, start, end, found, table)
    else:
        count = _find_ends(trie, data, start, end, found)
    if count < 0 or n + 2 * count > ranks.size:
        return -1
    begin = n
    for i in range(count):
        for column in (SOME, EVERY):
            ranks[n] = trie.fragments[found[i], column]
            n += ranks[n] > 0
    if trie.rules.size > 0:
        pairs = pairs_of(data, start + (kind >> 1), end)
        for i in range(count + 1):
            fragment = found[i] if i < count else np.int64(trie.fragments.shape[0])
            n = _decide(trie, fragment, data, start + (kind >> 1), end, pairs, ranks, begin, n)
            if n < 0:
                return -1
    return n


@kernel
def find_fragments(
    words: Int64s, kind: int, offsets: Int64s, data: Bytes, first: int, ends: Int64s,
    found: Int64s, table: Int64s, ranks: Int32s,
) -> int:  # fmt: skip
    """Find the fragments of the texts from `first` on. The ranks of text t end at ends[t + 1].

    `kind` has bit 0 if fragments are inside, and bit 1 if there is one more byte before each text. Returns the number
    of the text for which some buffer (see `SearchBuffers`) was too small, or the number of texts.
    """
    trie = _trie(words, 0)
    buffers = SearchBuffers(found, table, ranks)
    n: int = ends[first]
    for t in range(first, offsets.shape[0] - 1):
        n = append_ranks(trie, kind, data, offsets[t], offsets[t + 1], buffers, n)
        if n < 0:
            return t
        ends[t + 1] = n
    count: int = offsets.shape[0] - 1
    return count
