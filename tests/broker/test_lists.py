"""Sorted lists of offsets by key: whatever is added, merged, sealed and opened again, every key has its offsets."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whimbrel.broker.lists import Run, RunSet, event_ids, run_set
from whimbrel.broker.lists.event_ids import EventIds
from whimbrel.broker.lists.lost_keys import LostKeys
from whimbrel.log import LogReader, LogWriter

GROUPS = st.lists(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5), max_size=4), max_size=5))


def add(runs: RunSet, group: list[list[int]], expected: dict[int, list[int]]) -> None:
    """Add a group of entries, each with its keys."""
    first = runs.end
    keys, offsets = [], []
    for place, of_entry in enumerate(group):
        for key in sorted(set(of_entry)):
            keys.append(key)
            offsets.append(first + place)
            expected.setdefault(key, []).append(first + place)
    runs.add(first + len(group), np.array(keys, np.int64), np.array(offsets, np.int64))


@given(GROUPS, st.sampled_from(["merge", "flush", "reopen", "nothing"]), st.integers(1, 20), st.booleans())
def test_every_key_has_its_offsets(groups: list[list[list[int]]], step: str, seal: int, digests: bool) -> None:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_set, "SEAL_ENTRIES", seal)
        patch.setattr(run_set, "FULL_PAIRS", 2 * seal)
        runs = RunSet(Path(directory), 0, digests)
        expected: dict[int, list[int]] = {}
        for group in groups:
            add(runs, group, expected)
            runs.merge()
        if step == "flush":
            runs.flush()
        elif step == "reopen":
            end = runs.end
            runs.flush()
            runs = RunSet(Path(directory), end, digests)
            assert runs.end == end
        for key, offsets in expected.items():
            assert runs.find(key).tolist() == offsets
            for after in (-1, 0, offsets[0], offsets[-1] - 1):
                behind = [offset for offset in offsets if offset > after]
                assert runs.find(key, after).tolist() == behind
                assert runs.find(key, after, 2).tolist() == behind[:2]
                assert runs.count(key, after) == len(behind)
        assert runs.find(77777).tolist() == []
        keys = np.array([*expected, 77777, -1, 0], np.int64)
        for run in runs.runs:
            assert run.among(keys).tolist() == np.flatnonzero(np.isin(keys, run.keys)).tolist()


def test_the_number_of_runs_grows_slowly(tmp_path: Path) -> None:
    runs = RunSet(tmp_path, 0)
    for _ in range(3_000):
        add(runs, [[1], [2]], {})
        runs.merge()
    assert len(runs.runs) < 4 * run_set.FAN
    assert runs.find(1).tolist() == list(range(0, 6_000, 2))


def test_full_runs_are_merged_no_more_and_bitmaps_tell_most_keys_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_set, "FULL_PAIRS", 1_000)
    chance = np.random.default_rng(7)
    keys = chance.integers(-(2**63), 2**63 - 1, 40_000)
    runs = RunSet(tmp_path, 0, digests=True)
    for start in range(0, len(keys), 100):
        runs.add(start + 100, keys[start : start + 100], np.arange(start, start + 100))
        runs.merge()
    assert max(len(run.places) for run in runs.runs) < 10_000 and len(runs.runs) > 4
    for run in runs.runs:
        assert len(run.among(keys[run.first : run.end])) == run.end - run.first
        others = chance.integers(-(2**63), 2**63 - 1, 10_000)
        bits = others.view(np.uint64) >> np.uint64(64 - 6 - (len(run.bitmap).bit_length() - 1))
        maybe = run.bitmap[bits >> np.uint64(6)] >> (bits & np.uint64(63)) & np.uint64(1)
        assert maybe.mean() < 0.09 and not len(run.among(others))


def test_full_runs_go_to_files_and_runs_before_and_behind_them_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that match much make full runs of few entries. Then come events that match little, which are sealed."""
    monkeypatch.setattr(run_set, "SEAL_ENTRIES", 20)
    monkeypatch.setattr(run_set, "FULL_PAIRS", 40)
    runs = RunSet(tmp_path, 0)
    expected: dict[int, list[int]] = {}
    groups = [*[[[1, 2, 3, 4]] * 2] * run_set.FAN, *[[[5]] * 3] * run_set.FAN, [[6]], [list(range(50))], [[7]]]
    for group in groups:
        add(runs, group, expected)
        if runs.needs_merge():
            runs.merge()
    full = [run for run in runs.runs if len(run.places) >= 40]
    assert len(full) == 2 and all((tmp_path / f"{run.first:020d}-{run.end:020d}.run").exists() for run in full)
    runs.flush()
    for held in (runs, RunSet(tmp_path, runs.end)):
        assert held.end == held.sealed == sum(map(len, groups))
        assert {key: held.find(key).tolist() for key in expected} == expected


def test_a_merge_that_has_much_to_do_leaves_no_run_between_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_set, "FULL_PAIRS", 10)
    runs = RunSet(tmp_path, 0)
    expected: dict[int, list[int]] = {}
    for _ in range(3 * run_set.FAN):
        add(runs, [list(range(9))], expected)
    runs.merge()
    assert runs.sealed >= 2 * run_set.FAN
    runs.flush()
    assert {key: runs.find(key).tolist() for key in expected} == expected


def test_what_is_in_memory_lies_behind_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash a file behind a run in memory would be of no use: all since that run is read from the log again."""
    monkeypatch.setattr(run_set, "SEAL_ENTRIES", 1_000)
    monkeypatch.setattr(run_set, "FULL_PAIRS", 1_000)
    runs = RunSet(tmp_path, 0)
    expected: dict[int, list[int]] = {}
    large, smaller = [list(range(100))] * 9, [list(range(20))] * 8
    for group in [large, *[smaller] * run_set.FAN, [[5]]]:  # the smaller ones become a full one
        add(runs, group, expected)
        runs.merge()
    assert runs.sealed == runs.end - 1
    assert {key: runs.find(key).tolist() for key in expected} == expected
    again = RunSet(tmp_path, runs.end)
    assert again.end == runs.sealed


def test_a_full_run_that_comes_during_a_merge_goes_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_set, "FULL_PAIRS", 40)
    runs = RunSet(tmp_path, 0)
    expected: dict[int, list[int]] = {}
    coming = [[list(range(50))], *[[list(range(8))]] * run_set.FAN]  # a full run, and others that become one
    merged = Run.merged

    def merge_slowly(old: Sequence[Run], digests: bool = False) -> Run:
        while coming:
            add(runs, coming.pop(0), expected)
        return merged(old, digests)

    for _ in range(run_set.FAN):
        add(runs, [[7]], expected)
    monkeypatch.setattr(Run, "merged", merge_slowly)
    runs.merge()
    assert runs.sealed == runs.end == 2 * run_set.FAN + 1 and not runs.needs_merge()
    assert {key: runs.find(key).tolist() for key in expected} == expected


def test_full_runs_that_wait_together_are_written_in_bounded_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_set, "FULL_PAIRS", 10)
    runs = RunSet(tmp_path, 0)
    for _ in range(5 * run_set.FAN):
        add(runs, [list(range(10))], {})
    runs.merge()
    assert runs.sealed == runs.end
    assert [len(run.places) for run in runs.runs] == [10 * run_set.FAN] * 5


def test_runs_of_many_entries_that_match_little_are_merged_no_more(tmp_path: Path) -> None:
    """A run numbers its entries with 32 bits."""
    runs = RunSet(tmp_path, 0)
    for end in range(run_set.FULL_ENTRIES // 2, 12 << 30, run_set.FULL_ENTRIES // 2):
        runs.add(end, np.array([1], np.int64), np.array([end - 1], np.int64))
        runs.merge()
    assert len(runs.find(1)) == len(range(run_set.FULL_ENTRIES // 2, 12 << 30, run_set.FULL_ENTRIES // 2))
    assert len(runs.runs) < 3 * run_set.FAN


def test_a_key_that_loses_its_offsets_is_known_to_have_lost_them_all_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Truncation drops the run between two looks of a reader."""
    runs = RunSet(tmp_path, 0)
    add(runs, [[1]] * 5, {})
    runs.flush()
    add(runs, [[2]] * 5, {})
    runs.flush()

    def last_of(lost: LostKeys, key: int) -> int:
        monkeypatch.undo()
        found = lost.last_of(key)
        runs.truncate(5)
        return found

    monkeypatch.setattr(LostKeys, "last_of", last_of)
    runs._floor = 5  # it is raised first
    assert runs.has_lost(1, -1)


def test_runs_beyond_the_log_and_damaged_ones_are_made_anew(tmp_path: Path) -> None:
    runs = RunSet(tmp_path, 0)
    add(runs, [[1]] * 10, {})
    runs.flush()
    add(runs, [[1]] * 5, {})
    runs.flush()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    assert RunSet(tmp_path, 12).end == 10  # the log lost what the second run is about
    assert not files[1].exists()
    files[0].write_bytes(files[0].read_bytes()[:100])
    assert RunSet(tmp_path, 12).end == 0
    assert list(tmp_path.iterdir()) == []


def test_a_merge_that_was_interrupted_leaves_either_side(tmp_path: Path) -> None:
    runs = RunSet(tmp_path, 0)
    for _ in range(2):
        add(runs, [[1], [2]], {})
        runs.flush()
    Run.merged(runs.runs).save(tmp_path / f"{0:020d}-{4:020d}.run")  # the merged run is there, the old ones too
    again = RunSet(tmp_path, 4)
    assert len(again.runs) == 1
    assert again.find(2).tolist() == [1, 3]
    assert len(list(tmp_path.iterdir())) == 1


def test_event_ids_are_found_whether_they_are_sealed_or_not(tmp_path: Path) -> None:
    """Ids are remembered in one thread and sealed in another; none is ever missing, and a restart finds all of them."""
    names = [(f"source-{n % 3}", f"id-{n}") for n in range(1_000)]
    with LogWriter(tmp_path / "log") as writer, pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_ids, "SEAL_EVENTS", 100)
        patch.setattr(run_set, "SEAL_ENTRIES", 200)
        rows = [(0, msgspec.json.encode({"source": source, "id": id}), None) for source, id in names]
        writer.append_rows(rows).result()
        reader = LogReader(tmp_path / "log")
        ids = EventIds(tmp_path / "ids", reader)
        done = threading.Event()

        def seal() -> None:
            while not done.is_set():
                ids.seal(ids._end)

        sealing = threading.Thread(target=seal)
        sealing.start()
        for offset, (source, id) in enumerate(names):
            ids.remember({ids.digest("", source, id): offset})
            ids.advance(offset + 1)
            for at in (0, offset // 2, offset):
                digest = ids.digest("", *names[at])
                assert ids.verified(ids.look_up([digest])[digest], *names[at]) == at
        done.set()
        sealing.join()
        ids.close()
        again = EventIds(tmp_path / "ids", reader)
        assert again.sealed == len(names)
        digests = [again.digest("", source, id) for source, id in names]
        found = again.look_up(digests)
        assert [again.verified(found[digest], *name) for digest, name in zip(digests, names, strict=True)] == list(
            range(len(names))
        )
        assert again.look_up([again.digest("t", *names[0]), again.digest("", "source-0", "id-1")]) == {}
        assert again.verified([5], "source-0", "other") is None
        reader.close()


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=6), min_size=1, max_size=6), st.data()
)
def test_what_keys_have_lost_is_known_where_entries_bring_the_matches_of_older_events(
    groups: list[list[tuple[int, int]]], data: st.DataObject
) -> None:
    """Each group of five entries has pairs of its own offsets and of older ones, as a commit of match lists has."""
    with TemporaryDirectory() as directory:
        runs = RunSet(Path(directory), 0)
        expected: dict[int, list[int]] = {}
        for place, group in enumerate(groups):
            end = 5 * place + 5
            pairs = sorted({(key, min(offset, end - 1)) for key, offset in group})
            pairs = [(key, offset) for key, offset in pairs if offset > max(expected.get(key, [-1]))]
            runs.add(end, np.array([key for key, _ in pairs], np.int64), np.array([at for _, at in pairs], np.int64))
            for key, offset in pairs:
                expected.setdefault(key, []).append(offset)
            runs.flush()
        floor = data.draw(st.integers(0, runs.end))
        copied = run_set.lost_below(Path(directory), floor)
        runs.truncate(floor)
        for key in range(4):
            lost = [offset for offset in expected.get(key, []) if offset < floor]
            assert copied.last_of(key) == max(lost, default=-1)
            assert runs.find(key).tolist() == [offset for offset in expected.get(key, []) if offset >= floor]
            assert runs.count(key, -1) == len(runs.find(key))
            for after in range(-1, runs.end):
                assert runs.has_lost(key, after) == any(offset > after for offset in lost), (key, after)


KEYS = st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=1, max_size=40)


@given(KEYS, st.lists(st.integers(0, 40), max_size=3), st.booleans())
def test_runs_know_what_each_key_lost(entries: list[list[int]], floors: list[int], reopen: bool) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        runs = RunSet(Path(directory), 0)
        offsets: dict[int, list[int]] = {}
        floor = 0
        for at, keys in enumerate(entries):
            for key in set(keys):
                offsets.setdefault(key, []).append(at)
            distinct = sorted(set(keys))
            runs.add(at + 1, np.array(distinct, np.int64), np.full(len(distinct), at, np.int64))
            if at % 5 == 4:
                runs.flush()
        for wanted in floors:
            floor = max(floor, min(wanted, len(entries)))
            runs.flush()
            assert runs.sealed == len(entries)
            runs.truncate(floor)
            if reopen:
                runs = RunSet(Path(directory), len(entries), floor=floor)
        for key in range(7):
            for after in range(-1, len(entries)):
                behind = [offset for offset in offsets.get(key, ()) if offset > after]
                assert runs.find(key, after).tolist() == [offset for offset in behind if offset >= floor]
                assert runs.has_lost(key, after) == any(offset < floor for offset in behind)
