"""The loops that find the fragments of a trie in texts.

At the end of a path the rest of the fragment, its tail (see trie_build_kernels.py), is compared with the text. Where
fragments may begin anywhere (Aho and Corasick, 1975) tails are short, so that each byte of the text takes bounded time.
No path leads on from a node with a tail, so at most one tail is compared for each place where a fragment may begin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whimbrel.compiled.helpers import Integer, shared
from whimbrel.compiled.jit import helper, inlined, kernel, quick_kernel
from whimbrel.compiled.views import TupleOfArrays, view
from whimbrel.ranks.cells import RANK
from whimbrel.ranks.kernel_arrays import ENTRIES, ENTRIES_AT
from whimbrel.ranks.patterns.pattern_rules import BEGIN, PROGRAM, RULE_RANK
from whimbrel.ranks.patterns.rule_kernels import is_found, is_like
from whimbrel.ranks.patterns.trie_build_kernels import CUT, FAIL, WHOLE, child_of, step


class TrieArrays(NamedTuple):
    """The arrays of a trie."""

    nodes: np.ndarray  # int32[n + 1, 4]: see trie_build_kernels
    labels: np.ndarray  # uint8[n + 1]: the byte that leads to a node
    fragment: np.ndarray  # int32[n + 1]: the fragment that ends at a node, or -1
    classes: np.ndarray  # uint8[256]: the class of each byte
    dense: np.ndarray  # int32[m, classes]: the next node from each of the first nodes
    fragments: np.ndarray  # int64[f, 5]: the columns below
    known: np.ndarray  # uint8: the bytes of all fragments
    rule_first: np.ndarray  # int32[f + 2]: where the rules of each fragment begin, and those that every text asks for
    rules: np.ndarray  # int32: the rules of all fragments
    rule_table: np.ndarray  # int64[rules, 4]: see pattern_rules
    programs: np.ndarray  # uint64: of regular expressions


TRIE = TupleOfArrays(
    TrieArrays,
    ("int32", "uint8", "int32", "uint8", "int32", "int64", "uint8", "int32", "int32", "int64", "uint64"),
    (2, 1, 1, 1, 2, 2, 1, 1, 1, 2, 1),
    writeable=False,
)
START, LENGTH, DEPTH, SOME, EVERY = 0, 1, 2, 3, 4
"""Columns of a fragment: where its text begins, its length, the depth of its node, and its ranks, or 0."""
_FEW = 8
"""Up to this many fragments of a text are searched one by one."""

TRIE_WORDS = TRIE.words + 3
"""Words of a trie in `append_fragments`."""
_TABLE = 64
"""Places of the hash table of a search, at first."""

_trie, _entries = view(TRIE), view(ENTRIES)


@helper
def _larger(array: np.ndarray) -> np.ndarray:  # pragma: no cover
    """A copy of twice the size."""
    out = np.empty(2 * array.size, array.dtype)
    for i in range(array.size):  # slices take long to compile
        out[i] = array[i]
    return out


@helper
def _place(table: np.ndarray, number: Integer) -> Integer:  # pragma: no cover
    """The place of a fragment in a hash table, or the free place where it belongs."""
    mask = table.size - 1
    at = (number * 0x9E3779B1 >> 7) & mask
    while table[at] >= 0 and table[at] != number:
        at = (at + 1) & mask
    return at


@inlined
def _is_new(found: np.ndarray, count: int, table: np.ndarray, number: Integer) -> bool:  # pragma: no cover
    """Whether a fragment is not among the `count` fragments found so far."""
    if count > _FEW:
        is_free: bool = table[_place(table, number)] < 0
        return is_free
    is_new = True
    for i in range(count):
        is_new &= found[i] != number
    return is_new


@inlined
def _listed(found: np.ndarray, count: int, table: np.ndarray) -> np.ndarray:  # pragma: no cover
    """The hash table of the fragments found, with the last one; a larger table where it was half full."""
    if count <= _FEW:
        return table
    first = count - 1
    if 2 * count > table.size:
        table = np.empty(4 * table.size, np.int64)
        first = 0
    elif count == _FEW + 1:
        first = 0
    if first == 0:
        for i in range(table.size):
            table[i] = -1
    for i in range(first, count):
        table[_place(table, found[i])] = found[i]
    return table


@inlined
def _write(
    fragments: np.ndarray, found: np.ndarray, count: int, ranks: np.ndarray, n: int
) -> tuple[np.ndarray, int]:  # pragma: no cover
    """Append the ranks of the fragments found; return the ranks, which may be a new array, and their number."""
    while n + 2 * count > ranks.size:
        ranks = _larger(ranks)
    for i in range(count):
        for column in (SOME, EVERY):
            ranks[n] = fragments[found[i], column]
            n += ranks[n] > 0
    return ranks, n


@inlined
def _find_inside(
    trie: TrieArrays, data: np.ndarray, start: int, end: int, found: np.ndarray, table: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:  # pragma: no cover
    """Find the fragments that a text has anywhere, each once. Returns `found`, `table` and the count."""
    nodes, labels, fragment, classes, dense, fragments, known = trie[:7]
    node: Integer = np.int64(0)
    count = 0
    for at in range(start, end):
        if node < dense.shape[0]:  # not left to `step`: a call with so many arrays takes longer than this
            node = np.int64(dense[node, classes[data[at]]])
        else:
            node = step(nodes, labels, classes, dense, node, data[at])
        if nodes[node, WHOLE] | nodes[node, CUT] == 0:
            continue
        hit = np.int64(nodes[node, WHOLE])
        while hit != 0 and _is_new(found, count, table, np.int64(fragment[hit])):  # after one that is not new, none is
            if count == found.size:
                found = _larger(found)
            found[count] = fragment[hit]
            count += 1
            table = _listed(found, count, table)
            hit = np.int64(nodes[nodes[hit, FAIL], WHOLE])
        hit = np.int64(nodes[node, CUT])
        while hit != 0:
            p = np.int64(fragment[hit])
            rest = fragments[p, LENGTH] - fragments[p, DEPTH]
            if (
                at + 1 + rest <= end
                and shared(known, fragments[p, START] + fragments[p, DEPTH], data, at + 1, rest) == rest
                and _is_new(found, count, table, p)
            ):
                if count == found.size:
                    found = _larger(found)
                found[count] = p
                count += 1
                table = _listed(found, count, table)
            hit = np.int64(nodes[nodes[hit, FAIL], CUT])
    return found, table, count


@inlined
def _find_ends(
    trie: TrieArrays, data: np.ndarray, start: int, end: int, found: np.ndarray
) -> tuple[np.ndarray, int]:  # pragma: no cover
    """Find the fragments that a text ends with, which the trie has backwards. Returns `found` and the count."""
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
                    found = _larger(found)
                found[count] = p
                count += 1
        at -= 1
    return found, count


@inlined
def _decide(
    trie: TrieArrays, f: Integer, data: np.ndarray, start: int, end: int, ranks: np.ndarray, begin: int, n: int
) -> tuple[np.ndarray, int]:  # pragma: no cover
    """Append the ranks of the rules of a fragment that the text fits; the text has the ranks from `begin` on."""
    for i in range(trie.rule_first[f], trie.rule_first[f + 1]):
        rule = trie.rules[i]
        program, at = trie.rule_table[rule, PROGRAM], trie.rule_table[rule, BEGIN]
        rank = np.int32(trie.rule_table[rule, RULE_RANK])
        fits = True
        if program >= 0:  # it may have several keys
            for k in range(begin, n):
                fits &= ranks[k] != rank
            fits = fits and is_found(trie.programs, program, data, start, end)
        else:
            fits = is_like(trie.known, at, at + trie.rule_table[rule, LENGTH], data, start, end)
        if fits:
            if n == ranks.size:
                ranks = _larger(ranks)
            ranks[n] = rank
            n += 1
    return ranks, n


class SearchBuffers(NamedTuple):
    """What searches write: the fragments of a text, a hash table of them, and the ranks of all texts."""

    found: np.ndarray  # int64
    table: np.ndarray  # int64
    ranks: np.ndarray  # int32


@inlined
def _append_ranks(
    trie: TrieArrays, kind: int, data: np.ndarray, start: int, end: int, buffers: SearchBuffers, n: int
) -> tuple[SearchBuffers, int]:  # pragma: no cover
    """Append the ranks of the fragments of a text behind the first `n`; `kind` as in `find_fragments`."""
    found, table, ranks = buffers
    if kind & 1:
        found, table, count = _find_inside(trie, data, start, end, found, table)
        if table.size > _TABLE:  # the next text need not clear what this one has filled
            table = np.empty(_TABLE, np.int64)
    else:
        found, count = _find_ends(trie, data, start, end, found)
    begin = n
    ranks, n = _write(trie.fragments, found, count, ranks, n)
    if trie.rules.size > 0:
        for i in range(count + 1):
            fragment = found[i] if i < count else np.int64(trie.fragments.shape[0])
            ranks, n = _decide(trie, fragment, data, start + (kind >> 1), end, ranks, begin, n)
    return SearchBuffers(found, table, ranks), n


@kernel
def find_fragments(
    words: np.ndarray, kind: int, offsets: np.ndarray, data: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:  # pragma: no cover
    """Find the fragments of each text. Returns where the ranks of each text begin, and the ranks.

    `kind` has bit 0 if fragments are inside, and bit 1 if there is one more byte before each text.
    """
    trie = _trie(words, 0)
    ends = np.zeros(offsets.shape[0], np.int64)
    buffers = SearchBuffers(np.empty(16, np.int64), np.empty(_TABLE, np.int64), np.empty(16, np.int32))
    n = 0
    for t in range(offsets.shape[0] - 1):
        buffers, n = _append_ranks(trie, kind, data, offsets[t], offsets[t + 1], buffers, n)
        ends[t + 1] = n
    return ends, buffers.ranks[:n]


@quick_kernel
def append_fragments(words: np.ndarray, tries: np.ndarray, count: int, texts: int) -> int:  # pragma: no cover
    """Append the fragments of the texts of one event to its first `count` entries, which are among the `words`.

    `tries` has for each trie the source, the derived attribute, the kind and the words of the trie. Returns how many
    entries there are now; -1 if there is no place, or a source has several values.
    """
    entries = _entries(words, ENTRIES_AT)
    buffers = SearchBuffers(np.empty(16, np.int64), np.empty(_TABLE, np.int64), np.empty(16, np.int32))
    made = count
    for text in range(texts):
        entry = entries.text_entries[text]
        for at in range(0, tries.size, TRIE_WORDS):
            if tries[at] != entries.attrs[entry]:
                continue
            for other in range(count):
                if other != entry and entries.attrs[other] == tries[at]:
                    return -1
            start, end = entries.text_ends[text], entries.text_ends[text + 1]
            trie = _trie(tries, at + 3)
            buffers, n = _append_ranks(trie, tries[at + 2], entries.text_data, start, end, buffers, 0)
            if made + n > entries.attrs.size:
                return -1
            for i in range(n):
                entries.attrs[made] = tries[at + 1]
                entries.bits[made] = RANK | np.int64(buffers.ranks[i])
                made += 1
    return made
