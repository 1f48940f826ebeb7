"""Long runs: every method in any order for thousands of steps, and with readers in other threads meanwhile."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.engine.hunting import World
from tests.engine.test_stateful import Subscriptions, wait_for_merges
from whimbrel import Filter, Index
from whimbrel.engine.live import segment_set as engine
from whimbrel.engine.live.head import EVALUATE_NS
from whimbrel.model.event import Event


class LongSubscriptions(Subscriptions):
    """The machine of every run, for longer."""


TestLongRuns = pytest.mark.soak(LongSubscriptions.TestCase)
TestLongRuns.settings = settings(max_examples=60, stateful_step_count=60)


class History:
    """An index, every state that it has had, and how many of them are surely in force.

    The writer notes a state before it makes it so, and counts it after: a read that began when `done` states were made
    and ended when `len(states)` were noted saw one of those between.
    """

    def __init__(self) -> None:
        self.index = Index()
        self.states: list[dict[int, Filter]] = [{}]
        self.done = 0

    def note(self, state: dict[int, Filter]) -> None:
        """Begin a change."""
        self.states.append(state)

    def made(self) -> None:
        """The change is in force."""
        self.done = len(self.states) - 1

    def check_read(self, event: dict[str, Any], batch: bool) -> None:
        """Match, and see that the answer is that of one moment."""
        first = self.done
        index = self.index
        found = index.match_batch([event])["subscription"].to_pylist() if batch else index.match(event)
        last = len(self.states) - 1
        whole = Event(event)
        for state in self.states[first : last + 1]:
            wanted = [id for id, filter in state.items() if filter.matches(whole)]
            if (sorted(found) if batch else found) == (sorted(wanted) if batch else wanted):
                return
        raise AssertionError(f"{found} is the answer of no state between {first} and {last} on {event}")


def _write(history: History, world: World, directory: Path, seconds: float) -> None:
    draw = world.draw
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        index, kept = history.index, dict(history.states[-1])
        id = draw.randrange(60)
        text = world.text()
        action = draw.random()
        if action < 0.35 and id not in kept:
            history.note({**kept, id: Filter.parse(text)})
            index.add(id, text)
        elif action < 0.55 and id in kept:
            history.note({one: filter for one, filter in kept.items() if one != id})
            index.remove(id)
        elif action < 0.8 and id in kept:
            history.note({**kept, id: Filter.parse(text)})
            index.replace(id, text)
        elif action < 0.87:
            fresh = {one: world.text() for one in range(100, 140) if one not in kept and draw.random() < 0.3}
            history.note({**kept, **{one: Filter.parse(text) for one, text in fresh.items()}})
            index.add_many(fresh.items())
        elif action < 0.9:
            index.merge()
        elif action < 0.92:
            index.analyze([world.event() for _ in range(20)])
        elif action < 0.94:
            index.save(directory)
            opened = Index.open(directory)
            wait_for_merges(index)
            history.index = opened
        elif action < 0.97 and len(kept) > 50:
            gone = draw.sample(sorted(kept), 20)
            for one in gone:
                history.note({k: filter for k, filter in history.states[-1].items() if k != one})
                index.remove(one)
                history.made()
        history.made()
    wait_for_merges(history.index)


def _run(seed: int, directory: Path, seconds: float) -> int:
    history, world = History(), World(seed)
    errors: list[BaseException] = []
    stop = threading.Event()
    reads = 0

    def read(number: int) -> None:
        nonlocal reads
        own = World(seed)
        own.draw = random.Random(f"{seed} {number}")
        try:
            while not stop.is_set():
                history.check_read(own.event(), own.draw.random() < 0.4)
                reads += 1
        except BaseException as error:
            errors.append(error)
            stop.set()

    readers = [threading.Thread(target=read, args=(number,)) for number in range(2)]
    for reader in readers:
        reader.start()
    try:
        _write(history, world, directory, seconds)
        while not reads and not stop.is_set():  # on a slow machine
            time.sleep(0.01)
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    if errors:
        raise errors[0]
    history.index._check()
    assert {id: history.index[id].filter for id in history.index} == history.states[-1]
    assert list(history.index) == list(history.states[-1])
    return reads


@pytest.mark.parametrize(
    ("seeds", "seconds"), [(range(2), 3.0), pytest.param(range(100, 110), 9.0, marks=pytest.mark.soak)]
)
def test_readers_see_one_moment_whatever_the_writer_does(
    seeds: range, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "HEAD_SIZE", 8)
    monkeypatch.setattr(engine, "HEAD_NS", 3 * EVALUATE_NS)
    monkeypatch.setattr(engine, "FANOUT", 3)
    for seed in seeds:
        monkeypatch.setattr(engine, "SEGMENT_NS", 10**9 if seed % 2 else 5_000)  # each search pays for a merge, or few
        assert _run(seed, tmp_path / str(seed), seconds) > 0
