"""kill -9 of a writing process: every acknowledged entry is there, byte for byte, and there are no gaps."""

from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from whimbrel.log import LogReader, LogWriter

# Writes entries that can be foretold from run and number, alone and together, truncates at times, and says what was
# acknowledged: one line per group, written after the futures are done.
_WRITER = """
import os, random, sys
from whimbrel.log import LogWriter
from tests.log.test_kill import content

path, run = sys.argv[1], int(sys.argv[2])
draw = random.Random(run)
writer = LogWriter(path, group_rows=draw.choice([1, 16, 4096]))
while True:
    entries = [content(writer.end + place) for place in range(draw.choice([1, 1, 7, 300]))]
    if draw.random() < 0.5:
        last = writer.append_many(entries).result()[-1]
    else:
        last = [writer.append(event, matches) for event, matches in entries][-1].result()
    line = f"{last} -\\n"
    if draw.random() < 0.05:
        before = draw.randrange(writer.floor, writer.end + 1)
        writer.truncate(before).result()
        line = f"{last} {before}\\n"
    os.write(1, line.encode())
"""


def content(offset: int) -> tuple[bytes, list[int] | None]:
    """What the entry at an offset must hold: bytes of all lengths up to several pages, and a match list."""
    seed = hashlib.blake2b(str(offset).encode()).digest()
    length = int.from_bytes(seed[:2]) % (9_000 if seed[2] < 20 else 300)
    event = (seed * (length // len(seed) + 1))[:length]
    return event, None if seed[3] < 30 else [offset * place for place in range(seed[3] % 30)]


def _kill_a_writer(log: Path, run: int, after: float) -> tuple[int, int]:
    """The last acknowledged offset and floor of a writer that was killed some seconds after its first answer."""
    process = subprocess.Popen([sys.executable, "-c", _WRITER, str(log), str(run)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    answers = (first + process.stdout.read()).split(b"\n")[:-1]  # a last line without its end was cut off
    process.wait()
    process.stdout.close()
    floors = [int(answer.split()[1]) for answer in answers if not answer.endswith(b"-")]
    return int(answers[-1].split()[0]), max(floors, default=0)


def _check(log: Path, last: int, floor: int) -> None:
    with LogReader(log) as reader:
        assert reader.floor >= floor
        assert reader.end > last
        for offset, entry in enumerate(reader.read(reader.floor), reader.floor):
            event, matches = content(offset)
            assert entry.offset == offset
            assert entry.event == event
            assert entry.matches == (None if matches is None else sorted(set(matches)))


def _kill_and_check(log: Path, runs: int, seed: int) -> None:
    draw = random.Random(seed)
    floor = 0
    for run in range(runs):
        last, found = _kill_a_writer(log, seed + run, draw.random() * 0.3)
        floor = max(floor, found)
        _check(log, last, floor)
    with LogWriter(log) as writer:  # its lock died with it
        assert writer.append(*content(writer.end)).result() == writer.end - 1


def test_acknowledged_entries_survive_kill_9(tmp_path: Path) -> None:
    _kill_and_check(tmp_path / "log", runs=3, seed=1)


@pytest.mark.soak
def test_acknowledged_entries_survive_a_hundred_kills(tmp_path: Path) -> None:
    _kill_and_check(tmp_path / "log", runs=100, seed=1_000)
