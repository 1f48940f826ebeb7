"""A process that changes and saves an index until it is killed, and what must be on disk then.

Every generation follows from its number alone, so that whoever finds an index knows what it must hold. Run as
`python -m tests.engine.live.crash_loop DIRECTORY SECONDS SEED`: kills a child again and again, and checks what it left.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
from pathlib import Path

from whimbrel import Filter, Index
from whimbrel.engine.live import segment_set as engine

EVENTS = [{"a": a, "b": b, "t": "xyz"[a % 3], "generation": 0} for a in range(4) for b in range(3)]
STAMP = "generation"


def _changes(generation: int) -> list[tuple[str, str, str]]:
    """What is done between the save before a generation and its own: (method, id, text)."""
    draw = random.Random(generation)
    changes = [("put", STAMP, f"generation = {generation}")]
    for _ in range(draw.randrange(2, 60)):
        id = f"s{draw.randrange(300)}"
        text = draw.choice(
            [
                f"a = {draw.randrange(4)} AND b < {draw.randrange(4)}",
                f"a BETWEEN {draw.randrange(3)} AND 3 OR t IN ('x', 'q{draw.randrange(50)}')",
                f"t LIKE '%{draw.choice('xyz')}%' AND b != {draw.randrange(3)}",
            ]
        )
        changes.append((draw.choice(["put", "put", "put", "drop"]), id, text))
    return changes


def state_of(generation: int) -> dict[str, str]:
    """The texts of a generation, by id, in order of addition."""
    kept: dict[str, str] = {}
    for number in range(generation + 1):
        for method, id, text in _changes(number):
            if method == "put":
                kept[id] = text
            else:
                kept.pop(id, None)
    return kept


def advance(index: Index, generation: int) -> None:
    """Bring an index of the generation before to this one."""
    for method, id, text in _changes(generation):
        if method == "put" and id in index:
            index.replace(id, text)
        elif method == "put":
            index.add(id, text)
        elif id in index:
            index.remove(id)
    if generation % 5 == 4:
        index.merge()


def generation_of(directory: Path) -> int:
    """Which generation is saved in a directory, after checking that it is all of it and nothing else."""
    index = Index.open(directory)
    stamp = index[STAMP].filter.text
    assert stamp is not None
    generation = int(stamp.split("=")[1])
    wanted = state_of(generation)
    assert list(index) == list(wanted)
    assert {id: index[id].filter.text for id in index} == wanted
    filters = {id: Filter.parse(text) for id, text in wanted.items()}
    for event in EVENTS:
        assert index.match(event) == [id for id, filter in filters.items() if filter.matches(event)]
    index._check()
    return generation


def _run(directory: Path, generation: int, answers: int) -> None:
    """Advance and save for ever; tell when a save begins and when it is done."""
    index = Index.open(directory)
    while True:
        generation += 1
        advance(index, generation)
        os.write(answers, f"begun {generation}\n".encode())
        index.save(directory)
        os.write(answers, f"saved {generation}\n".encode())


def main(directory: Path, seconds: float, seed: int) -> None:
    """Kill a child at random moments for so long; print how many, and how many of them lost a save in progress.

    Goes on, however long it takes, until some kill was within a save.
    """
    engine.HEAD_SIZE, engine.FANOUT = 8, 3  # merges are nearly always under way
    index = Index()
    advance(index, 0)
    index.save(directory)
    draw = random.Random(seed)
    kills = torn = generation = 0
    generation_of(directory)  # compiles what checking needs, before the clock starts
    ends = time.monotonic() + seconds
    while time.monotonic() < ends or kills < 4 or not torn:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                _run(directory, generation, writer)
            finally:
                os._exit(1)
        os.close(writer)
        if draw.random() < 0.5:  # within a save, which takes a few milliseconds
            select.select([reader], [], [], 5.0)
            time.sleep(draw.uniform(0.0, 0.01))
        else:
            time.sleep(draw.uniform(0.0, 0.3))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        with os.fdopen(reader) as answers:
            told = [line.split() for line in answers]
        assert os.WIFSIGNALED(status), "the child failed by itself"
        begun = max((int(number) for word, number in told if word == "begun"), default=generation)
        saved = max((int(number) for word, number in told if word == "saved"), default=generation)
        found = generation_of(directory)
        assert saved <= found <= begun, (saved, found, begun)
        kills += 1
        torn += begun > saved
        generation = found
    print(kills, torn, generation)  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
