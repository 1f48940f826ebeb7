"""Pattern tries: find the fragments of patterns that a string ends with, or contains.

The patterns of an attribute become tests of another, *derived* attribute, whose values are the fragments that the
strings have. Then `url LIKE '%.pdf'` is an equality. A fragment is a string constant of the derived attribute: its text
and a letter that tells how to look for it. So ranks, access keys and merges know nothing of patterns. An attribute may
have several values, so a fragment is of the kind `some` (some value must have it) or, for an excluded pattern, `every`.
One trie has the fragments of a derived attribute that strings end with, another the fragments that strings contain. A
pattern with several texts is one fragment, which a rule decides if its key is found (`pattern_rules`).

Stored arrays are called `book_...`, and fragments `piece`: the names are part of the file format.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from whimbrel.compiled.views import read_only, words_of
from whimbrel.model.patterns import lower_case
from whimbrel.model.values import STRING
from whimbrel.ranks.arrow import numbers, string_buffers, values_of
from whimbrel.ranks.distinct import distinct_strings
from whimbrel.ranks.patterns.networks import EVERY_NETWORK
from whimbrel.ranks.patterns.pattern_rules import RULE_LETTERS, PatternRules, read_rules
from whimbrel.ranks.patterns.rule_kernels import pairs_of_rules
from whimbrel.ranks.patterns.trie_build_kernels import connect, grow, measure
from whimbrel.ranks.patterns.trie_search_kernels import (
    DEPTH,
    LENGTH,
    MOST_FOUND,
    SOME,
    START,
    TRIE,
    TrieArrays,
    find_fragments,
)

SOME_END, SOME_INSIDE, EVERY_END, EVERY_INSIDE = "e", "i", "E", "I"
"""The last letter of a fragment: at the end of a text or inside it; of the kind `some` (small) or `every` (capital)."""
SOME_FOLDED_END, SOME_FOLDED_INSIDE, EVERY_FOLDED_END, EVERY_FOLDED_INSIDE = "f", "g", "F", "G"
"""The same for fragments that are looked for in the lower case of values, behind `FOLDED_START`."""
FOLDED_START = "A"
"""Put before the lower case of a text, so that a fragment can ask for the beginning of it: no lower case has it."""

_KINDS = (
    (SOME_END, EVERY_END),
    (SOME_INSIDE, EVERY_INSIDE),
    (SOME_FOLDED_END, EVERY_FOLDED_END),
    (SOME_FOLDED_INSIDE, EVERY_FOLDED_INSIDE),
)
"""The last letters of the fragments of each kind of trie; bit 0 of a kind says `is_inside`."""

_TAIL = 64
"""Bytes of the tail of an inside fragment, at most: it is compared with the text wherever the fragment's path ends."""
_MORE = 1
"""Bytes that the path of an inside fragment goes on after the fragment is alone on it. Without them a search spends
most of its time comparing tails, because texts reach more path ends."""
_DENSE_AT_LEAST, _DENSE_CELLS = 256, 1 << 17
"""An eighth of the nodes have a dense row, but at least so many, and at most as many as have so many cells, which stay
in the cache."""
_ANY_TAIL = np.iinfo(np.int32).max


class PatternTrie:
    """A trie of the fragments that strings end with, or contain; or that their lower case does (`is_folded`)."""

    def __init__(self, arrays: TrieArrays, kind: int) -> None:
        self.arrays = arrays
        self.kind = kind
        self.is_folded = kind > 1
        self.words = np.array(words_of(TRIE, arrays), np.int64)

    def find(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Find the fragments of texts (`read_only` arrays); return where the ranks of each begin, and the ranks."""
        count, size = len(offsets) - 1, MOST_FOUND
        ends, ranks = np.zeros(count + 1, np.int64), np.empty(256 + 4 * count, np.int32)
        done = 0
        while True:
            found, table = np.empty(size, np.int64), np.empty(4 * size, np.int64)
            done = find_fragments(self.words, self.kind, offsets, data, done, ends, found, table, ranks)
            if done == count:
                return ends, ranks[: ends[count]]
            size *= 2
            ranks = np.concatenate([ranks, np.empty_like(ranks)])


def build_tries(dictionary: Mapping[str, np.ndarray], derived: list[int]) -> dict[str, np.ndarray]:
    """Build the tries of the derived attributes as flat arrays, one trie after the other; none without fragments."""
    found = {attr: read_rules(dictionary, attr) for attr in derived}
    kinds = [(attr, kind) for attr in derived for kind in _kinds(dictionary, attr, found[attr])]
    made = [(attr, _build(dictionary, attr, kind, found[attr])) for attr, kind in kinds]
    if not made:
        return {}
    tries = [trie.arrays for _, trie in made]
    starts = np.zeros((len(tries) + 1, 3), np.int64)
    starts[1:] = np.cumsum([(len(trie.nodes), len(trie.fragments), trie.dense.size) for trie in tries], axis=0)
    arrays: dict[str, np.ndarray] = {
        "book_attr": np.array([(attr, trie.kind, trie.arrays.dense.shape[1]) for attr, trie in made], np.int32),
        "book_start": starts,
        "book_nodes": np.concatenate([trie.nodes for trie in tries]),
        "book_labels": np.concatenate([trie.labels for trie in tries]),
        "book_piece": np.concatenate([trie.fragment for trie in tries]),
        "book_classes": np.stack([trie.classes for trie in tries]),
        "book_dense": np.concatenate([trie.dense.ravel() for trie in tries]),
        "book_pieces": np.concatenate([trie.fragments for trie in tries]),
    }
    if any(rules is not None for rules in found.values()):
        sizes = [(len(trie.rules), len(trie.rule_table), len(trie.programs)) for trie in tries]
        arrays |= {
            "rule_start": np.concatenate([np.zeros((1, 3), np.int64), np.cumsum(sizes, axis=0)]),
            "rule_first": np.concatenate([trie.rule_first for trie in tries]),
            "rules": np.concatenate([trie.rules for trie in tries]),
            "rule_table": np.concatenate([trie.rule_table for trie in tries]),
            "rule_programs": np.concatenate([trie.programs for trie in tries]),
        }
    return arrays


def open_tries(arrays: Mapping[str, np.ndarray]) -> dict[int, list[PatternTrie]]:
    """The tries of each derived attribute."""
    found: dict[int, list[PatternTrie]] = {}
    for number, (attr, kind, width) in enumerate(arrays["book_attr"].tolist() if "book_attr" in arrays else ()):
        cuts = [slice(*pair) for pair in arrays["book_start"][number : number + 2].T.tolist()]
        trie = TrieArrays(
            nodes=read_only(arrays["book_nodes"][cuts[0]]),
            labels=read_only(arrays["book_labels"][cuts[0]]),
            fragment=read_only(arrays["book_piece"][cuts[0]]),
            classes=read_only(arrays["book_classes"][number]),
            dense=read_only(arrays["book_dense"][cuts[2]].reshape(-1, width)),
            fragments=read_only(arrays["book_pieces"][cuts[1]]),
            known=read_only(arrays["string_bytes"]),
            **_open_rules(arrays, number, cuts[1]),
        )
        found.setdefault(attr, []).append(PatternTrie(trie, kind))
    return found


def _open_rules(arrays: Mapping[str, np.ndarray], number: int, fragments: slice) -> dict[str, np.ndarray]:
    """The rules of a trie; segments of older versions have none."""
    if "rule_start" not in arrays:
        return _no_rules(fragments.stop - fragments.start)
    cuts = [slice(*pair) for pair in arrays["rule_start"][number : number + 2].T.tolist()]
    firsts = slice(fragments.start + 2 * number, fragments.stop + 2 * number + 2)
    table = read_only(arrays["rule_table"][cuts[1]])
    return {
        "rule_first": read_only(arrays["rule_first"][firsts]),
        "rules": read_only(arrays["rules"][cuts[0]]),
        "rule_table": table,
        "programs": read_only(arrays["rule_programs"][cuts[2]]),
        "rule_pairs": pairs_of_rules(table, read_only(arrays["string_bytes"])),
    }


def _no_rules(fragments: int) -> dict[str, np.ndarray]:
    return {
        "rule_first": np.zeros(fragments + 2, np.int32),
        "rules": np.empty(0, np.int32),
        "rule_table": np.empty((0, 4), np.int64),
        "programs": np.empty(0, np.uint64),
        "rule_pairs": np.empty(0, np.uint64),
    }


def one_text(text: str) -> tuple[np.ndarray, np.ndarray]:
    """The offsets and bytes of one text, for `PatternTrie.find`."""
    data = np.frombuffer(text.encode(), np.uint8)
    return read_only(np.array([0, len(data)], np.int64)), data


def folded_texts(offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The offsets and bytes of the lower case of texts, each behind `FOLDED_START`. Python reads what is not ASCII."""
    first, last = int(offsets[0]), int(offsets[-1])
    own, lengths = data[first:last], np.diff(offsets)
    lower = own + ((own - np.uint8(ord("A"))) < 26) * np.uint8(32)
    odd = np.unique(np.searchsorted(offsets, np.flatnonzero(own > 127) + first, "right") - 1)
    sizes, is_odd = lengths + 1, np.zeros(len(lengths), bool)
    is_odd[odd] = True
    texts: list[bytes] = []
    for row in odd.tolist():
        text = bytes(data[offsets[row] : offsets[row + 1]]).decode(errors="replace")  # a null may hold anything
        texts.append(lower_case(text).encode())
        sizes[row] = len(texts[-1]) + 1
    cuts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    out = np.empty(cuts[-1], np.uint8)
    out[cuts[:-1]] = ord(FOLDED_START)
    plain = ~np.repeat(is_odd, lengths)
    out[(np.arange(first, last) + np.repeat(cuts[:-1] + 1 - offsets[:-1], lengths))[plain]] = lower[plain]
    for row, folded in zip(odd.tolist(), texts, strict=True):
        out[cuts[row] + 1 : cuts[row + 1]] = np.frombuffer(folded, np.uint8)
    return read_only(cuts), read_only(out)


def is_every(arrays: Mapping[str, np.ndarray], attr: int) -> np.ndarray:
    """A mask of the constants of a derived attribute whose fragments are of the kind `every`."""
    first, last = arrays["string_start"][attr : attr + 2].tolist()
    kinds = arrays["string_bytes"][arrays["string_offset"][first + 1 : last + 1] - 1]
    letters = [*(every for _, every in _KINDS), EVERY_NETWORK, *filter(str.isupper, RULE_LETTERS)]
    mask: np.ndarray = np.isin(kinds, [ord(letter) for letter in letters])
    return mask


def _kinds(dictionary: Mapping[str, np.ndarray], attr: int, rules: PatternRules | None) -> list[int]:
    """The kinds of tries for which a derived attribute has fragments or rules."""
    first, last = dictionary["string_start"][attr : attr + 2].tolist()
    ends = dictionary["string_bytes"][dictionary["string_offset"][first + 1 : last + 1] - 1]
    letters = {chr(letter) for letter in np.flatnonzero(np.bincount(ends, minlength=256)).tolist()}
    ruled = set() if rules is None else {*rules.keys[:, 0].tolist(), *rules.always[:, 0].tolist()}
    return [kind for kind, own in enumerate(_KINDS) if kind in ruled or not letters.isdisjoint(own)]


def _build(dictionary: Mapping[str, np.ndarray], attr: int, kind: int, rules: PatternRules | None) -> PatternTrie:
    """One trie; its table of fragments may be empty if it has rules."""
    is_inside = bool(kind & 1)
    (offsets, data), fragments, own_rules = _gather(dictionary, attr, kind, rules)
    depth = np.empty(len(fragments), np.int64)
    tail, more = (_TAIL, _MORE) if is_inside else (_ANY_TAIL, 0)
    levels = measure(read_only(offsets), read_only(data), tail, more, depth)
    count = int(levels.sum())
    if count > _ANY_TAIL:
        raise OverflowError("Expected fewer than 2**31 bytes of patterns of an attribute in one segment")
    nodes = np.zeros((count + 1, 4), np.int32)
    labels, fragment, classes = np.zeros(count + 1, np.uint8), np.empty(count + 1, np.int32), np.zeros(256, np.uint8)
    grow(read_only(offsets), read_only(data), read_only(depth), levels, nodes, labels, fragment)
    used = np.unique(labels[1:count])
    classes[used] = np.arange(1, len(used) + 1)
    width = len(used) + 1
    rows = min(count, max(_DENSE_AT_LEAST, min(count // 8, _DENSE_CELLS // width)))
    dense = np.zeros((rows, width), np.int32)
    connect(nodes, labels, fragment, classes, dense, depth == np.diff(offsets), is_inside)
    fragments[:, DEPTH] = depth
    known = dictionary["string_bytes"]
    return PatternTrie(TrieArrays(nodes, labels, fragment, classes, dense, fragments, known, **own_rules), kind)


def _gather(
    dictionary: Mapping[str, np.ndarray], attr: int, kind: int, rules: PatternRules | None
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray, dict[str, np.ndarray]]:
    """The sorted distinct texts of a trie (reversed if strings end with them), its table of fragments, its rules."""
    first, last = dictionary["string_start"][attr : attr + 2].tolist()
    starts, ends = dictionary["string_offset"][first:last], dictionary["string_offset"][first + 1 : last + 1] - 1
    data = dictionary["string_bytes"]
    is_inside = bool(kind & 1)
    some, every = _KINDS[kind]
    own = np.flatnonzero((data[ends] == ord(some)) | (data[ends] == ord(every)))
    starts, ends = starts[own], ends[own]
    is_every = (data[ends] == ord(every)).astype(np.int64)
    keys = np.empty((0, 4), np.int64) if rules is None else rules.keys[rules.keys[:, 0] == kind]
    starts, ends = np.append(starts, keys[:, 1]), np.append(ends, keys[:, 1] + keys[:, 2])
    lengths = ends - starts
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    step = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    letters = data[np.repeat(starts, lengths) + step if is_inside else np.repeat(ends - 1, lengths) - step]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    coded = pa.Array.from_buffers(pa.large_binary(), len(starts), buffers).dictionary_encode()
    order = distinct_strings(*map(read_only, string_buffers(coded.dictionary)))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    at = place[values_of(coded.indices)]
    fragments = np.zeros((len(order), 5), np.int64)
    fragments[at, START], fragments[at, LENGTH] = starts, lengths
    fragments[at[: len(own)], SOME + is_every] = dictionary["rank_base"][attr, STRING] + 2 * own + 1
    texts = string_buffers(coded.dictionary.take(numbers(order)))
    return texts, fragments, _rules_by_fragment(rules, kind, at[len(own) :], keys[:, 3], len(order))


def _rules_by_fragment(
    rules: PatternRules | None, kind: int, at: np.ndarray, of_key: np.ndarray, fragments: int
) -> dict[str, np.ndarray]:
    """The rules of each fragment that is a key; behind the last fragment, the rules that decide every text."""
    if rules is None:
        return _no_rules(fragments)
    always = rules.always[rules.always[:, 0] == kind, 1]
    at = np.append(at, np.full(len(always), fragments, np.int64))
    if not len(at):
        return _no_rules(fragments)
    first = np.zeros(fragments + 2, np.int32)
    np.cumsum(np.bincount(at, minlength=fragments + 1), out=first[1:])
    own = np.append(of_key, always)[np.argsort(at, kind="stable")].astype(np.int32)
    pairs = np.zeros(len(rules.table), np.uint64)  # computed when a stored trie is opened
    return {
        "rule_first": first,
        "rules": own,
        "rule_table": rules.table,
        "programs": rules.programs,
        "rule_pairs": pairs,
    }
