"""Books of pieces: which of the texts that patterns look for does a string end with, or have inside?

The patterns of an attribute are tests of another, *derived* attribute, whose values are the pieces that its strings
have: then `url LIKE '%.pdf'` is an equality. A piece is a string constant of the derived attribute, its text and a
letter that says how it is looked for, so that ranks, keys and merges know nothing of patterns. A piece is looked for
in `some` value, or, for what is excluded, in `every` one: an attribute may have several values. A book holds the
pieces of one derived attribute that are looked for at the end of strings, or those that are looked for inside.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from whimbrel.compiled.views import words_of
from whimbrel.model.values import STRING
from whimbrel.ranks.arrow import numbers, values_of
from whimbrel.ranks.dictionary import sorted_distinct, string_buffers
from whimbrel.ranks.patterns.book_kernels import BOOK, DEPTH, LENGTH, SOME, START, BookArrays, find_pieces
from whimbrel.ranks.patterns.networks import EVERY_NETWORK
from whimbrel.ranks.patterns.trie_kernels import connect, grow, measure
from whimbrel.ranks.search import fixed

SOME_END, SOME_INSIDE, EVERY_END, EVERY_INSIDE = "e", "i", "E", "I"
"""The last letter of a piece."""

_TAIL = 64
"""Bytes of a piece inside that are compared with the text at every place where the rest of it ends, at most."""
_MORE = 1
"""Bytes that the path of a piece inside has after it is alone: without, texts end so many paths that comparing tails
takes longer than all else."""
_DENSE_AT_LEAST, _DENSE_CELLS = 256, 1 << 17
"""Nodes of a book that have a dense row: an eighth of them, but so many at least, and so many cells at most, which stay
in the cache."""
_ANY_TAIL = np.iinfo(np.int32).max
_MARK = "\udc00"
"""What the keys of derived attributes begin with: no name has a lone surrogate."""


def derived_key(name: str) -> str:
    """The key of the attribute that holds the pieces of another; no attribute of users can have it."""
    return _MARK + name


def source_name(key: str) -> str | None:
    """The attribute whose pieces an attribute holds, if it is a derived one."""
    return key[1:] if key.startswith(_MARK) else None


class Book:
    """A trie of pieces that strings end with, or have inside."""

    def __init__(self, arrays: BookArrays, is_inside: bool) -> None:
        self.arrays = arrays
        self.is_inside = is_inside
        self._words = np.array(words_of(BOOK, arrays), np.int64)

    def find(self, offsets: np.ndarray, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ranks of the pieces that texts have: where those of each begin, and the ranks. Takes `fixed` arrays."""
        return find_pieces(self._words, self.is_inside, offsets, data)


def build_books(dictionary: Mapping[str, np.ndarray], derived: list[int]) -> dict[str, np.ndarray]:
    """The books of the derived attributes, one after the other in flat arrays; nothing if there are none."""
    made = [(attr, _build(dictionary, attr, is_inside)) for attr in derived for is_inside in (False, True)]
    made = [(attr, book) for attr, book in made if len(book.arrays.pieces)]
    if not made:
        return {}
    books = [book.arrays for _, book in made]
    starts = np.zeros((len(books) + 1, 3), np.int64)
    starts[1:] = np.cumsum([(len(book.nodes), len(book.pieces), book.dense.size) for book in books], axis=0)
    return {
        "book_attr": np.array([(attr, book.is_inside, book.arrays.dense.shape[1]) for attr, book in made], np.int32),
        "book_start": starts,
        "book_nodes": np.concatenate([book.nodes for book in books]),
        "book_labels": np.concatenate([book.labels for book in books]),
        "book_piece": np.concatenate([book.piece for book in books]),
        "book_classes": np.stack([book.classes for book in books]),
        "book_dense": np.concatenate([book.dense.ravel() for book in books]),
        "book_pieces": np.concatenate([book.pieces for book in books]),
    }


def open_books(arrays: Mapping[str, np.ndarray]) -> dict[int, list[Book]]:
    """The books of each derived attribute."""
    found: dict[int, list[Book]] = {}
    for number, (attr, is_inside, width) in enumerate(arrays["book_attr"].tolist() if "book_attr" in arrays else ()):
        cuts = [slice(*pair) for pair in arrays["book_start"][number : number + 2].T.tolist()]
        book = BookArrays(
            nodes=fixed(arrays["book_nodes"][cuts[0]]),
            labels=fixed(arrays["book_labels"][cuts[0]]),
            piece=fixed(arrays["book_piece"][cuts[0]]),
            classes=fixed(arrays["book_classes"][number]),
            dense=fixed(arrays["book_dense"][cuts[2]].reshape(-1, width)),
            pieces=fixed(arrays["book_pieces"][cuts[1]]),
            known=fixed(arrays["string_bytes"]),
        )
        found.setdefault(attr, []).append(Book(book, bool(is_inside)))
    return found


def is_every(arrays: Mapping[str, np.ndarray], attr: int) -> np.ndarray:
    """By index of a derived attribute's constants, whether every value must have the piece."""
    first, last = arrays["string_start"][attr : attr + 2].tolist()
    kinds = arrays["string_bytes"][arrays["string_offset"][first + 1 : last + 1] - 1]
    mask: np.ndarray = np.isin(kinds, [ord(letter) for letter in (EVERY_END, EVERY_INSIDE, EVERY_NETWORK)])
    return mask


def _build(dictionary: Mapping[str, np.ndarray], attr: int, is_inside: bool) -> Book:
    """One book, of which the table of pieces may be empty."""
    (offsets, data), pieces = _gather(dictionary, attr, is_inside)
    depth = np.empty(len(pieces), np.int64)
    tail, more = (_TAIL, _MORE) if is_inside else (_ANY_TAIL, 0)
    levels = measure(fixed(offsets), fixed(data), tail, more, depth)
    count = int(levels.sum())
    if count > _ANY_TAIL:
        raise OverflowError("Expected fewer than 2**31 bytes of patterns of an attribute in one segment")
    nodes = np.zeros((count + 1, 4), np.int32)
    labels, piece, classes = np.zeros(count + 1, np.uint8), np.empty(count + 1, np.int32), np.zeros(256, np.uint8)
    grow(fixed(offsets), fixed(data), fixed(depth), levels, nodes, labels, piece)
    used = np.unique(labels[1:count])
    classes[used] = np.arange(1, len(used) + 1)
    width = len(used) + 1
    rows = min(count, max(_DENSE_AT_LEAST, min(count // 8, _DENSE_CELLS // width)))
    dense = np.zeros((rows, width), np.int32)
    connect(nodes, labels, piece, classes, dense, depth == np.diff(offsets), is_inside)
    pieces[:, DEPTH] = depth
    return Book(BookArrays(nodes, labels, piece, classes, dense, pieces, dictionary["string_bytes"]), is_inside)


def _gather(
    dictionary: Mapping[str, np.ndarray], attr: int, is_inside: bool
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The sorted distinct texts of a book, backwards if they are looked for at the end, and its table of pieces."""
    first, last = dictionary["string_start"][attr : attr + 2].tolist()
    starts, ends = dictionary["string_offset"][first:last], dictionary["string_offset"][first + 1 : last + 1] - 1
    data = dictionary["string_bytes"]
    some, every = (SOME_INSIDE, EVERY_INSIDE) if is_inside else (SOME_END, EVERY_END)
    own = np.flatnonzero((data[ends] == ord(some)) | (data[ends] == ord(every)))
    starts, ends = starts[own], ends[own]
    lengths = ends - starts
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    step = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    letters = data[np.repeat(starts, lengths) + step if is_inside else np.repeat(ends - 1, lengths) - step]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    coded = pa.Array.from_buffers(pa.large_binary(), len(own), buffers).dictionary_encode()
    order = sorted_distinct(*map(fixed, string_buffers(coded.dictionary)))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    at = place[values_of(coded.indices)]
    pieces = np.zeros((len(order), 5), np.int64)
    pieces[at, START], pieces[at, LENGTH] = starts, lengths
    pieces[at, SOME + (data[ends] == ord(every))] = dictionary["rank_base"][attr, STRING] + 2 * own + 1
    return string_buffers(coded.dictionary.take(numbers(order))), pieces
