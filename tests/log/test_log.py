"""The log against a plain list: offsets, bytes, match lists, floor; several readers; errors that say where."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import wait
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from whimbrel.log import (
    BelowFloor,
    BeyondEnd,
    LogClosed,
    LogLocked,
    LogReader,
    LogWriter,
)
from whimbrel.log.match_list import encode
from whimbrel.model.errors import LimitExceeded
from whimbrel.model.limits import LOG_ENTRY_BYTES

_EVENTS = st.binary(max_size=60)
_MATCHES = st.none() | st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=40)


class LogAgainstAList(RuleBasedStateMachine):
    """Appends alone and together, truncations and restarts in any order, against a list and a floor."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.path = Path(self.folder.name) / "log"
        self.writer = LogWriter(self.path)
        self.reader = LogReader(self.path)
        self.model: list[tuple[int, bytes, list[int] | None]] = []
        self.floor = 0

    @rule(event=_EVENTS, matches=_MATCHES, kind=st.integers(0, 255))
    def append(self, event: bytes, matches: list[int] | None, kind: int) -> None:
        assert self.writer.append(event, matches, kind=kind).result() == len(self.model)
        self.model.append((kind, event, None if matches is None else sorted(set(matches))))

    @rule(entries=st.lists(st.tuples(_EVENTS, _MATCHES), max_size=20))
    def append_many(self, entries: list[tuple[bytes, list[int] | None]]) -> None:
        first = len(self.model)
        assert self.writer.append_many(entries).result() == range(first, first + len(entries))
        self.model += [(0, event, None if found is None else sorted(set(found))) for event, found in entries]

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        before = round(share * len(self.model))
        assert self.writer.truncate(before).result() == max(0, before - self.floor)
        self.floor = max(self.floor, before)

    @rule()
    def restart(self) -> None:
        self.writer.close()
        self.writer = LogWriter(self.path)

    @rule(share=st.floats(0, 1), size=st.integers(1, 7))
    def read_from_somewhere(self, share: float, size: int) -> None:
        start = self.floor + round(share * (len(self.model) - self.floor))
        rows = [row for chunk in self.reader.chunks(start, size=size) for row in chunk]
        assert [(row[0], row[3]) for row in rows] == [
            (offset, self.model[offset][1]) for offset in range(start, len(self.model))
        ]

    @invariant()
    def reads_as_the_model(self) -> None:
        assert self.reader.bounds == (self.floor, len(self.model)) == (self.writer.floor, self.writer.end)
        found = [(entry.kind, entry.event, entry.matches) for entry in self.reader.read(self.floor)]
        assert found == self.model[self.floor :]
        if self.floor:
            with pytest.raises(BelowFloor):
                list(self.reader.read(self.floor - 1))

    def teardown(self) -> None:
        self.reader.close()
        self.writer.close()
        self.folder.cleanup()


TestLogAgainstAList = LogAgainstAList.TestCase
TestLogAgainstAList.settings = TestLogAgainstAList.settings.__class__(
    TestLogAgainstAList.settings, max_examples=15, stateful_step_count=20
)


def test_one_by_one_in_a_burst_keeps_the_order_of_the_calls(tmp_path: Path) -> None:
    with LogWriter(tmp_path, group_rows=64) as writer, LogReader(tmp_path) as reader:
        futures = [writer.append(b"%d" % number) for number in range(1_000)]
        assert [future.result() for future in futures] == list(range(1_000))
        assert [entry.event for entry in reader.read(0)] == [b"%d" % number for number in range(1_000)]


def test_an_entry_is_committed_before_it_is_acknowledged(tmp_path: Path) -> None:
    """Callbacks run in the writing thread, at the moment of the acknowledgement."""
    with LogWriter(tmp_path) as writer, LogReader(tmp_path) as reader:
        ends: list[tuple[int, int]] = []
        futures = [writer.append(b"x") for _ in range(100)]
        for future in futures:
            future.add_done_callback(lambda done: ends.append((done.result(), reader.end)))
        writer.close()
        assert len(ends) == 100
        assert all(end > offset for offset, end in ends)


def test_a_commit_is_synced_to_disk(tmp_path: Path) -> None:
    """kill -9 cannot tell: what was written survives it without a sync. Loss of power would."""
    with LogWriter(tmp_path) as writer:
        full = 2
        assert writer._connection.execute("PRAGMA synchronous").fetchone() == (full,)
        assert writer._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_entries_given_together_stay_together_above_the_size_of_a_group(tmp_path: Path) -> None:
    with LogWriter(tmp_path, group_rows=10) as writer, LogReader(tmp_path) as reader:
        futures = [writer.append_many([(b"x", None)] * 25) for _ in range(20)]
        seen = set()
        while not all(future.done() for future in futures):
            seen.add(reader.end % 25)
        seen.add(reader.end % 25)
        assert seen == {0}


def test_rows_of_several_kinds_are_appended_together_and_picked_one_by_one(tmp_path: Path) -> None:
    rows = [(n % 3, b"%d" % n, None if n % 2 else encode([n])) for n in range(50)]
    with LogWriter(tmp_path) as writer:
        assert writer.append_rows(rows).result() == range(50)
        assert writer.append_rows([]).result() == range(50, 50)
        with pytest.raises(ValueError, match="a kind from 0 to 255"):
            writer.append_rows([(256, b"", None)])
        writer.truncate(10).result()
    with LogReader(tmp_path) as reader:
        picked = reader.pick([49, 10, 10, 33])
        assert [(offset, kind, event, coded) for offset, _, kind, event, coded in picked] == [
            (offset, *rows[offset]) for offset in (49, 10, 10, 33)
        ]
        assert len({time for _, time, *_ in reader.rows(10)}) == 1
        assert reader.pick([]) == []
        with pytest.raises(BelowFloor):
            reader.pick([20, 9])
        with pytest.raises(BeyondEnd):
            reader.pick([50])


def test_callers_wait_when_too_much_is_pending_and_nothing_is_lost(tmp_path: Path) -> None:
    with LogWriter(tmp_path, pending_bytes=10_000) as writer, LogReader(tmp_path) as reader:
        wait([writer.append(b"x" * 3_000) for _ in range(50)])
        assert reader.end == 50


def test_several_threads_append_and_several_read_meanwhile(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as writer:
        acknowledged: list[dict[int, bytes]] = [{} for _ in range(4)]

        def append(thread: int) -> None:
            for number in range(60):
                event = b"%d:%d" % (thread, number)
                acknowledged[thread][writer.append(event, [number]).result()] = event

        def read(found: list[Any]) -> None:
            with LogReader(tmp_path) as reader:
                while len(found) < 240:
                    found += reader.read(len(found))

        results: list[list[Any]] = [[], []]
        threads = [threading.Thread(target=append, args=(thread,)) for thread in range(4)]
        threads += [threading.Thread(target=read, args=(result,)) for result in results]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    everything = {offset: event for part in acknowledged for offset, event in part.items()}
    assert sorted(everything) == list(range(240))
    for result in results:
        assert {entry.offset: entry.event for entry in result} == everything


def test_another_process_reads_while_this_one_writes(tmp_path: Path) -> None:
    script = (
        "import sys; from whimbrel.log import LogReader\n"
        "reader = LogReader(sys.argv[1]); at = 0; print('ready', flush=True)\n"
        "while at < 500:\n"
        "    for entry in reader.read(at):\n"
        "        assert entry.offset == at and entry.event == b'%d' % at and entry.matches == [at]; at += 1\n"
        "print(at)"
    )
    with LogWriter(tmp_path) as writer:
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for number in range(500):
            writer.append(b"%d" % number, [number]).result()
        assert process.communicate(timeout=60)[0] == "500\n"
        assert process.returncode == 0


def test_a_second_writer_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as writer:
        with pytest.raises(LogLocked, match=f"process {os.getpid()} is writing") as caught:
            LogWriter(tmp_path)
        assert caught.value.owner == os.getpid()
        writer.append(b"still mine").result()
    with LogWriter(tmp_path) as writer:
        assert writer.end == 1


def test_a_forked_child_holds_no_lock_and_cannot_append(tmp_path: Path) -> None:
    script = (
        "import os, sys, time; from whimbrel.log import LogClosed, LogWriter\n"
        "writer = LogWriter(sys.argv[1]); writer.append(b'parent').result()\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        writer.append(b'child')\n"
        "    except LogClosed:\n"
        "        print('refused', flush=True)\n"
        "    writer.close()\n"
        "    sys.stdin.read()\n"
        "    os._exit(0)\n"
        "os.wait() if len(sys.argv) > 2 else os._exit(0)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    parent.wait(60)  # the child lives on, waiting for its input
    assert parent.stdout is not None
    assert parent.stdout.readline() == "refused\n"
    with LogWriter(tmp_path) as writer:
        assert writer.append(b"next").result() == 1
    parent.communicate()


def test_the_floor_is_durable_and_reading_below_it_says_both_offsets(log: Path) -> None:
    with LogWriter(log) as writer:
        assert writer.truncate(40).result() == 40
        assert writer.truncate(30).result() == 0  # a floor never sinks
    with LogReader(log) as reader:
        assert reader.bounds == (40, 100)
        with pytest.raises(BelowFloor, match="at least 40, the floor of the log, but got 39") as caught:
            list(reader.read(39))
        assert (caught.value.offset, caught.value.floor) == (39, 40)
        assert [entry.offset for entry in reader.read(40, 43)] == [40, 41, 42]


def test_a_log_truncated_to_nothing_goes_on_counting(log: Path) -> None:
    with LogWriter(log) as writer:
        writer.truncate(100).result()
    with LogWriter(log) as writer, LogReader(log) as reader:
        assert reader.bounds == (100, 100)
        assert writer.append(b"x").result() == 100
        assert [entry.offset for entry in reader.read(100)] == [100]


def test_a_reader_in_the_middle_of_a_truncated_range_is_told(log: Path) -> None:
    with LogWriter(log) as writer, LogReader(log) as reader:
        chunks = reader.chunks(0, size=10)
        next(chunks)
        writer.truncate(50).result()
        with pytest.raises(BelowFloor):
            next(chunks)


def test_a_truncation_waits_for_the_entries_that_it_deletes(tmp_path: Path) -> None:
    with LogWriter(tmp_path, group_rows=10) as writer, LogReader(tmp_path) as reader:
        appended = [writer.append(b"x") for _ in range(200)]
        truncated = writer.truncate(150)
        assert [future.result() for future in appended] == list(range(200))
        assert truncated.result() == 150
        assert [entry.offset for entry in reader.read(150)] == list(range(150, 200))


def test_a_truncation_of_many_chunks_beside_an_append(tmp_path: Path) -> None:
    with LogWriter(tmp_path) as writer, LogReader(tmp_path) as reader:
        writer.append_many([(b"", None)] * 30_000).result()
        truncated = writer.truncate(30_000)
        assert writer.append(b"x").result() == 30_000
        assert truncated.result() == 30_000
        assert reader.bounds == (30_000, 30_001)


def test_the_next_writer_finishes_an_interrupted_truncation(log: Path) -> None:
    with sqlite3.connect(log / "log.sqlite") as connection:
        connection.execute("UPDATE log SET floor = 60")
    connection.close()
    with LogReader(log) as reader:
        assert reader.bounds == (60, 100)
    LogWriter(log).close()
    connection = sqlite3.connect(log / "log.sqlite")
    assert connection.execute("SELECT min(offset) FROM entry").fetchone() == (60,)
    connection.close()


def test_reading_and_truncating_beyond_the_end_are_refused(log: Path) -> None:
    with LogReader(log) as reader:
        assert list(reader.read(100)) == []
        with pytest.raises(BeyondEnd, match="at most 100, the end of the log, but got 101") as caught:
            list(reader.read(101))
        assert (caught.value.offset, caught.value.end) == (101, 100)
        with pytest.raises(BeyondEnd):
            list(reader.read(99, 102))
    with LogWriter(log) as writer, pytest.raises(BeyondEnd):
        writer.truncate(101)


def test_what_is_closed_says_so(log: Path) -> None:
    writer = LogWriter(log)
    reader = LogReader(log)
    for closing in (writer, reader):
        closing.close()
        closing.close()
    with pytest.raises(LogClosed, match="it was closed"):
        writer.append(b"x")
    with pytest.raises(LogClosed):
        writer.truncate(1)
    with pytest.raises(LogClosed):
        list(reader.read(0))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("text",), "Expected the bytes of an event, but got str"),
        ((b"", ["a"]), "Expected int64 numbers, but got 'a'"),
        ((b"", np.array([0.5])), "an array of float64"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_it_gets_an_offset(
    tmp_path: Path, arguments: tuple[Any, ...], problem: str
) -> None:
    with LogWriter(tmp_path) as writer:
        with pytest.raises(TypeError, match=problem):
            writer.append(*arguments)
        with pytest.raises(LimitExceeded, match="log entry bytes"):
            writer.append(bytes(LOG_ENTRY_BYTES.value + 1))
        with pytest.raises(ValueError, match="Expected a kind from 0 to 255, but got 256"):
            writer.append(b"", kind=256)
        assert writer.append(b"", []).result() == 0
