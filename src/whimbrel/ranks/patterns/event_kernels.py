"""Finds the fragments of the texts of one event: by tries, tries of the lower case, and tables of networks."""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.array_types import Bytes, Int64s
from whimbrel.compiled.jit import helper, quick_kernel
from whimbrel.compiled.views import view
from whimbrel.ranks.cells import RANK
from whimbrel.ranks.kernel_arrays import ENTRIES, ENTRIES_AT
from whimbrel.ranks.patterns.networks import NETWORKS, append_networks
from whimbrel.ranks.patterns.trie_search_kernels import MOST_FOUND, TRIE, SearchBuffers, append_ranks

NETWORKS_4, NETWORKS_6 = 4, 5
"""Kinds of searches beside those of tries: IPv4 networks, and IPv6 networks, which Python searches."""
SEARCH_WORDS = max(TRIE.words, NETWORKS.words) + 3
"""Words of a search: the source, the derived attribute, the kind, and the words of a trie or of networks."""
_START = np.uint8(ord("A"))
"""`pattern_trie.FOLDED_START`."""

_trie, _networks, _entries = map(view, (TRIE, NETWORKS, ENTRIES))


@helper
def _fold(data: Bytes, start: int, end: int) -> np.ndarray:
    """The lower case of an ASCII text, behind `_START`; empty if the text has other characters."""
    out = np.empty(end - start + 1, np.uint8)
    out[0] = _START
    for i in range(end - start):
        byte = data[start + i]
        if byte > 127:
            return out[:0]
        out[i + 1] = byte + np.uint8(32) * (65 <= byte <= 90)
    return out


@helper
def _has_colon(data: Bytes, start: int, end: int) -> bool:
    found = False
    for i in range(start, end):
        found |= data[i] == 58
    return found


@quick_kernel
def append_fragments(words: Int64s, searches: Int64s, count: int, texts: int) -> int:
    """Append the fragments of the texts of one event to its first `count` entries, which are among the `words`.

    `searches` has SEARCH_WORDS words for each search. Returns the new number of entries, or -1 if there is no space, a
    source has several values, or Python must look at a text.
    """
    entries = _entries(words, ENTRIES_AT)
    buffers = SearchBuffers(np.empty(MOST_FOUND, np.int64), np.empty(4 * MOST_FOUND, np.int64), np.empty(256, np.int32))
    made = count
    for text in range(texts):
        entry = entries.text_entries[text]
        for at in range(0, searches.size, SEARCH_WORDS):
            if searches[at] != entries.attrs[entry]:
                continue
            for other in range(count):
                if other != entry and entries.attrs[other] == searches[at]:
                    return -1
            start, end, kind = entries.text_ends[text], entries.text_ends[text + 1], searches[at + 2]
            if kind == NETWORKS_6:
                if _has_colon(entries.text_data, start, end):
                    return -1
                continue
            if kind == NETWORKS_4:
                n = append_networks(_networks(searches, at + 3), entries.text_data, start, end, buffers.ranks, 0)
            else:
                data = entries.text_data
                if kind & 2:
                    data = _fold(data, start, end)
                    start, end = np.int64(0), np.int64(data.size)
                    if end == 0:
                        return -1
                n = append_ranks(_trie(searches, at + 3), kind, data, start, end, buffers, 0)
            if n < 0 or made + n > entries.attrs.size:
                return -1
            for i in range(n):
                entries.attrs[made], entries.elements[made] = searches[at + 1], 0
                entries.bits[made] = RANK | np.int64(buffers.ranks[i])
                made += 1
    return made
