"""The compiled JSON reader under a mutation fuzzer: it never crashes, and says what the exact reader says."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.ranks.encoding.test_json_cases import ACCEPT, EITHER, REFUSE
from tests.ranks.encoding.test_json_reader import GOOD, SOME, agree
from tests.ranks.reference import make

CORPUS = [*(text.encode() for text in GOOD), *ACCEPT.values(), *REFUSE.values(), *EITHER.values()]
CORPUS = [text for text in CORPUS if len(text) < 500]
TOKENS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"\\",
    b"\\u",
    b"\\ud83d",
    b"\\ude00",
    b'\\"',
    b"null",
    b"true",
    b"false",
]
TOKENS += [b"0", b"-", b"1e5", b"0.5", b"18446744073709551616", b"1e-400", b" ", b"\t", b"\n", b"\0", b"\x1f", b"\x7f"]
TOKENS += [b"\xc3\xa9", b"\xe2\x82\xac", b"\xf0\x9f\x98\x80", b"\xff", b"\xc0", b"\xed\xa0\x80", b"\xef\xbb\xbf"]
TOKENS += [
    b'"a":',
    b'"d":{"x":',
    b'"d.x":1',
    b'"t":"1970-01-01"',
    b'"a rather long name of an attribute":7',
    b"[[[[[[[[",
]


def mutated(draw: random.Random) -> bytes:
    """A text of the corpus with some bytes or pieces changed, inserted, moved, repeated or left out."""
    text = bytearray(draw.choice(CORPUS))
    for _ in range(draw.choice((1, 1, 2, 3, 6))):
        at = draw.randrange(len(text) + 1)
        end = min(len(text), at + draw.choice((0, 1, 1, 2, 4, 8, 30)))
        kind = draw.randrange(7)
        if kind == 0:
            text[at:end] = draw.choice(TOKENS)
        elif kind == 1:
            text[at:at] = draw.choice(TOKENS)
        elif kind == 2 and at < len(text):
            text[at] ^= 1 << draw.randrange(8)
        elif kind == 3:
            del text[at:end]
        elif kind == 4:
            text[at:at] = text[at:end] * draw.choice((1, 2, 70))
        elif kind == 5:
            other = draw.choice(CORPUS)
            text[at:] = other[draw.randrange(len(other) + 1) :]
        else:
            text[at:end] = draw.randbytes(draw.choice((1, 2, 3)))
    return bytes(text)


def run(seconds: float, seed: int) -> int:
    """Fuzz for some seconds; returns how many texts were read."""
    draw = random.Random(seed)
    encoders = [make(SOME), make(SOME, ["a", "d.x"])]
    done = 0
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        texts = [mutated(draw) for _ in range(500)]
        agree(draw.choice(encoders), texts, draw.choice(([], ["t"], ["t", "d.x"])))
        done += len(texts)
    return done


def test_mutated_texts_for_some_seconds() -> None:
    assert run(3.0, 7) >= 500


@pytest.mark.soak
def test_mutated_texts_for_minutes() -> None:
    assert run(300.0, random.randrange(1 << 32)) >= 500


FUZZER = """
import sys, atheris
from tests.ranks.encoding.test_json_fuzzing import SOME, agree, make

encoder = make(SOME, ["a"])

def check(text):
    agree(encoder, [text, b'{"a": 1}'], ["t"])

with atheris.instrument_imports(include=["whimbrel.model.json_text", "whimbrel.ranks.encoding.json_reader"]):
    import whimbrel.model.json_text, whimbrel.ranks.encoding.json_reader
atheris.Setup(sys.argv, check)
atheris.Fuzz()
"""


@pytest.mark.soak
def test_coverage_guided(tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="the fuzzer is not installed: pip install atheris")
    for number, text in enumerate(CORPUS):
        (tmp_path / str(number)).write_bytes(text)
    command = [sys.executable, "-c", FUZZER, "-max_total_time=120", "-max_len=400", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3_000:]
