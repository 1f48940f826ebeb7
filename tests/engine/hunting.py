"""Differential hunting: wide random indexes and events, every way to match against the reference evaluator.

A hunt follows from its seed alone. Each draws its own world: how many attributes, which types of values, how filters
are written, how they come in, and what happens to them. `python -m tests.engine.hunting FIRST COUNT` hunts by hand.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.engine.test_index import block_pairs, pairs
from tests.strategies import NUMBERS, STRINGS
from whimbrel import Filter, Index
from whimbrel.language.sql.literals import value_text
from whimbrel.model.event import Event


class World:
    """What filters and events are made of."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.names = [f"x{n}" for n in range(draw.choice([1, 2, 5, 12, 40, 200]))] + ["d.x", "d.y"]
        self.spread = draw.choice([3, 20, 400, 100_000])
        self.kinds = draw.sample(["integer", "integer", "float", "text", "flag", "odd"], draw.randint(1, 4))
        self.odd = draw.choice([0.0, 0.0, 0.1, 0.5])
        self.lists = draw.choice([0.0, 0.05, 0.4])
        self.terms = draw.choice([(1, 2), (1, 4), (4, 9)])
        self.flat = draw.random() < 0.5

    def value(self, kind: str | None = None) -> Any:
        """A value of some type."""
        draw = self.draw
        kind = kind or draw.choice(self.kinds)
        number = draw.randrange(self.spread)
        if kind == "integer":
            return number - self.spread // 3
        if kind == "float":
            return number / 8 - 2
        if kind == "text":
            return draw.choice([f"t{number}", f"{number}", "t", "é" * (number % 3)])
        if kind == "flag":
            return draw.random() < 0.5
        return draw.choice([*NUMBERS, *STRINGS])

    def literal(self) -> str:
        """A value as it is written in a filter."""
        return value_text(self.value())

    def predicate(self) -> str:
        """One predicate."""
        draw, name, literal = self.draw, self.draw.choice(self.names), self.literal
        if draw.random() < self.odd:
            return draw.choice(
                [
                    f"{name} LIKE '%{draw.randrange(10)}'",
                    f"{name} LIKE 't{draw.randrange(10)}%'",
                    f"{name} NOT LIKE '_{draw.randrange(10)}%'",
                    f"{name} {draw.choice(['', 'NOT '])}LIKE '%{draw.randrange(20)}%'",
                    f"{name} {draw.choice(['', 'NOT '])}LIKE '{draw.choice(['t', '1'])}%{draw.randrange(10)}'",
                    f"{name} NOT LIKE '%{draw.randrange(10)}'",
                    f"{name} RLIKE '{draw.choice(['^t', '[0-9]'])}{draw.randrange(3)}'",
                    f"{name} STARTS WITH 't{draw.randrange(30)}'",
                    f"{name} ENDS WITH '{draw.randrange(30)}'",
                    f"{name} {draw.choice(['=', '<', '!='])} {draw.choice(self.names)}",
                    f"{name} IS {draw.choice(['', 'NOT '])}{draw.choice(['NULL', 'MISSING'])}",
                    f"{name} CONTAINS {draw.choice(['ALL', 'ANY', 'NONE'])} ({literal()}, {literal()})",
                    f"NOT ({name} < {literal()} AND {draw.choice(self.names)} = {literal()})",
                    f"({name} = {literal()} OR {draw.choice(self.names)} >= {literal()})",
                    f"{name} CONTAINS NULL",
                ]
            )
        low, high = self.value("integer"), self.value("integer")
        members = ", ".join(literal() for _ in range(draw.choice([1, 2, 4, 20])))
        return draw.choice(
            [
                *[f"{name} = {literal()}"] * 4,
                f"{name} != {literal()}",
                *(f"{name} {sign} {self.literal()}" for sign in ("<", "<=", ">", ">=")),
                f"{name} BETWEEN {min(low, high)} AND {max(low, high)}",
                f"{name} IN ({members})",
                f"{name} NOT IN ({members})",
                f"{name} CONTAINS {literal()}",
            ]
        )

    def text(self) -> str:
        """A filter."""
        text = " AND ".join(self.predicate() for _ in range(self.draw.randint(*self.terms)))
        return f"{text} OR {self.predicate()}" if self.draw.random() < 0.1 else text

    def cell(self) -> Any:
        """What an attribute of an event holds."""
        if self.draw.random() < self.lists:
            return [self.draw.choice([None, self.value(), self.value()]) for _ in range(self.draw.randrange(4))]
        return None if self.draw.random() < 0.05 else self.value()

    def event(self) -> dict[str, Any]:
        """An event; where the world is not flat it may have objects and arrays of objects."""
        share = self.draw.choice([0.2, 0.6, 1.0])
        event = {name: self.cell() for name in self.names[:-2] if self.draw.random() < share}
        event["unknown"] = self.value()
        if self.draw.random() < 0.6:
            inner = [{key: self.cell() for key in ("x", "y") if self.draw.random() < 0.8} for _ in range(2)]
            event["d"] = inner[0] if self.flat or self.draw.random() < 0.5 else inner
        return event

    def table(self, rows: int) -> tuple[pa.Table, list[dict[str, Any]]]:
        """Events as typed columns, and the same as dicts."""
        columns: dict[str, pa.Array] = {}
        for name in self.draw.sample(self.names, min(len(self.names), 12)):
            kind = self.draw.choice(["integer", "float", "text", "flag"])
            cells = [None if self.draw.random() < 0.2 else self.value(kind) for _ in range(rows)]
            if self.draw.random() < self.lists:
                columns[name] = pa.array([None if cell is None else [cell, cells[0]] for cell in cells])
            elif kind == "text" and self.draw.random() < 0.5:
                columns[name] = pa.array(cells, pa.string()).dictionary_encode()
            elif kind == "integer" and self.draw.random() < 0.5:
                columns[name] = pa.array(cells, self.draw.choice([pa.int32(), pa.int64()]))
            else:
                columns[name] = pa.array(cells)
        table = pa.table(columns)
        return table, [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]


def hunt(seed: int) -> None:
    """One hunt: build, change, match in every way."""
    world = World(seed)
    draw = world.draw
    kept: dict[int, Filter] = {}
    index = Index()
    size = draw.choice([1, 10, 100, 600, 2_000])
    texts = [world.text() for _ in range(size)]
    bulk = draw.randrange(size + 1)
    index.add_many(enumerate(texts[:bulk]))
    for id in range(bulk, size):
        index.add(id, texts[id])
    kept = {id: Filter.parse(text) for id, text in enumerate(texts)}
    events = [world.event() for _ in range(draw.choice([1, 6, 20]))]
    table, rows = world.table(draw.choice([1, 7, 40]))
    steps: list[Callable[[], object]] = [
        lambda: None,
        index.merge,
        lambda: index.analyze(draw.choice([events, table])),
        lambda: _change(world, index, kept),
        lambda: _change(world, index, kept),
    ]
    draw.shuffle(steps)
    for step in steps[: draw.randint(1, 3)]:
        step()
        check(index, kept, events, table, rows)
    with tempfile.TemporaryDirectory() as folder:
        index.save(Path(folder) / "index")
        check(Index.open(Path(folder) / "index"), kept, events, table, rows)


def _change(world: World, index: Index, kept: dict[int, Filter]) -> None:
    for _ in range(world.draw.choice([1, 5, 40])):
        id = world.draw.randrange(len(kept) + 5)
        text = world.text()
        if id not in kept:
            index.add(id, text)
        elif world.draw.random() < 0.5:
            index.replace(id, text)
        else:
            index.remove(id)
            del kept[id]
            continue
        kept[id] = Filter.parse(text)


def check(
    index: Index, kept: dict[int, Filter], events: list[dict[str, Any]], table: pa.Table, rows: list[dict[str, Any]]
) -> None:
    """Every way to match gives what the filters say."""
    wanted = _expected(kept, events)
    assert [(row, id) for row, event in enumerate(events) for id in index.match(event)] == wanted
    assert Counter(pairs(index.match_batch(events, threads=1))) == Counter(wanted)
    assert Counter(block_pairs(index, events, threads=2)) == Counter(wanted)
    wanted = _expected(kept, rows)
    assert Counter(pairs(index.match_batch(table, threads=2))) == Counter(wanted)
    assert Counter(block_pairs(index, table, threads=1)) == Counter(wanted)


def _expected(kept: dict[int, Filter], events: list[dict[str, Any]]) -> list[tuple[int, int | str]]:
    whole = [Event(event) for event in events]
    return [(row, id) for row, event in enumerate(whole) for id, filter in kept.items() if filter.matches(event)]


if __name__ == "__main__":
    for seed in range(int(sys.argv[1]), int(sys.argv[1]) + int(sys.argv[2])):
        try:
            hunt(seed)
        except BaseException:
            print(f"seed {seed}", file=sys.stderr)  # noqa: T201
            raise
