"""Books of fragments: what a text ends with and has inside, against Python's own string methods."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ranks.reference import dictionary_of
from whimbrel.compiled.views import read_only
from whimbrel.model.patterns import lower_case
from whimbrel.ranks.patterns import pattern_trie as tries
from whimbrel.ranks.patterns.pattern_trie import (
    EVERY_END,
    EVERY_INSIDE,
    FOLDED_START,
    SOME_END,
    SOME_INSIDE,
    PatternTrie,
    build_tries,
    folded_texts,
    open_tries,
)
from whimbrel.ranks.patterns.trie_search_kernels import DEPTH, LENGTH

LETTERS = st.text(alphabet="ab\0é\U0001f600", min_size=1, max_size=6)
KINDS = st.sampled_from([SOME_END, SOME_INSIDE, EVERY_END, EVERY_INSIDE])
FRAGMENTS = st.lists(st.builds("{}{}".format, LETTERS, KINDS), min_size=1, max_size=30)


class Tries:
    """The tries of one attribute and the constants that its ranks stand for."""

    def __init__(self, fragments: list[str]) -> None:
        arrays = dict(dictionary_of({"x": {"strings": fragments}}).arrays)
        self.constants = sorted(set(fragments), key=str.encode)
        self.base = int(arrays["rank_base"][0, 2])
        arrays |= build_tries(arrays, [0])
        for array in arrays.values():
            array.flags.writeable = False  # as a memory map is
        self.tries: list[PatternTrie] = open_tries(arrays)[0]

    def found(self, texts: list[str]) -> list[list[str]]:
        data = [text.encode() for text in texts]
        offsets = np.cumsum([0, *map(len, data)], dtype=np.int64)
        out: list[list[str]] = [[] for _ in texts]
        for trie in self.tries:
            ends, ranks = trie.find(read_only(offsets), np.frombuffer(b"".join(data), np.uint8))
            assert ends[0] == 0 and ends[-1] == len(ranks)
            for row, found in enumerate(out):
                found += [self.constants[(rank - self.base) >> 1] for rank in ranks[ends[row] : ends[row + 1]]]
        return out


def check(fragments: list[str], texts: list[str]) -> None:
    for text, found in zip(texts, Tries(fragments).found(texts), strict=True):
        assert len(found) == len(set(found)), "a fragment is found once"
        assert set(found) == {
            fragment
            for fragment in fragments
            if (text.endswith(fragment[:-1]) if fragment[-1] in SOME_END + EVERY_END else fragment[:-1] in text)
        }


@given(FRAGMENTS, st.lists(st.text(alphabet="ab\0é\U0001f600", max_size=12), max_size=6))
def test_the_pieces_of_texts_are_found(fragments: list[str], texts: list[str]) -> None:
    check(fragments, texts)


@pytest.mark.parametrize("tail", [0, 1, 3])
def test_the_pieces_are_found_whatever_the_length_of_tails(tail: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "_TAIL", tail)
    rng = random.Random(tail)
    for _ in range(60):
        words = ["".join(rng.choices("ab", k=rng.randint(1, 9))) for _ in range(rng.randint(1, 40))]
        fragments = [word + rng.choice(SOME_END + SOME_INSIDE + EVERY_END + EVERY_INSIDE) for word in words]
        check(fragments, ["".join(rng.choices("ab", k=rng.randint(0, 40))) for _ in range(20)])


def test_a_long_piece_is_compared_where_it_is_alone() -> None:
    rng = random.Random(2)
    long = "".join(rng.choices("abc", k=500))
    fragments = [long + SOME_INSIDE, long[:400] + "!" + SOME_INSIDE, long + SOME_END, "x" + SOME_INSIDE]
    check(fragments, [long, "y" + long + "y", long[1:], long[:400] + "!", long[:-1] + "!", "x"])
    trie = next(trie for trie in Tries(fragments).tries if trie.kind == 1)
    tails = trie.arrays.fragments[:, LENGTH] - trie.arrays.fragments[:, DEPTH]
    assert tails.max() == tries._TAIL and len(trie.arrays.nodes) < 1_000, "a tail is bounded, and has no nodes"


def test_fragments_that_are_parts_of_each_other() -> None:
    fragments = [
        text + kind for text in ("he", "she", "his", "hers", "s", "r", "e") for kind in (SOME_INSIDE, SOME_END)
    ]
    check(fragments, ["ushers", "she", "hishe", "rs", "h", ""])


def test_a_text_of_one_letter_meets_every_length_of_it() -> None:
    """Each place ends as many fragments as there are: a search that looked at all of them would not come to an end."""
    fragments = ["a" * n + SOME_INSIDE for n in range(1, 3_001)] + ["a" * 5_000 + "b" + SOME_INSIDE]
    assert [len(found) for found in Tries(fragments).found(["a" * 1_000_000, "aa", "a" * 1_000_000 + "b"])] == [
        3_000,
        2,
        3_001,
    ]


def test_many_pieces_take_few_nodes() -> None:
    rng = random.Random(3)
    words = sorted({"".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=12)) for _ in range(20_000)})
    shelf = Tries([word + SOME_INSIDE for word in words] + [word + SOME_END for word in words])
    assert all(len(trie.arrays.nodes) < 3 * len(words) for trie in shelf.tries)
    texts = ["".join(rng.choices("abcdefg", k=30)) + rng.choice(words) for _ in range(200)]
    for text, found in zip(texts, shelf.found(texts), strict=True):
        assert {text[-12:] + SOME_END, text[-12:] + SOME_INSIDE} <= set(found)


def test_a_text_with_many_pieces_is_followed_by_others() -> None:
    words = [f"{n:04d}" for n in range(3_000)]
    check([word + SOME_INSIDE for word in words], [" ".join(words), " ".join(words[:20]), words[7], "", words[8] * 9])


@given(st.lists(st.text(alphabet="aAzZ\0éÉΣİ\U0001f600", max_size=6), max_size=8), st.integers(0, 3))
def test_the_lower_case_of_texts_stands_behind_a_start_that_no_text_has(texts: list[str], skipped: int) -> None:
    data = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, data)], dtype=np.int64)[min(skipped, len(texts)) :]
    cuts, folded = folded_texts(offsets, np.frombuffer(b"".join(data), np.uint8))
    found = [bytes(folded[start:end]).decode() for start, end in itertools.pairwise(cuts.tolist())]
    assert found == [FOLDED_START + lower_case(text) for text in texts[skipped:]]
