"""Keyed publications with dicts: what `transitions` must tell, and histories to try it on."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from whimbrel import Filter

SCHEMA = (
    "key STRING, n BIGINT, gone BOOLEAN, a BIGINT, b STRING, d STRUCT<x: DOUBLE>, tags ARRAY<STRING>, un ARRAY<STRING>"
)
ARROW = pa.schema(
    [
        ("key", pa.string()), ("n", pa.int64()), ("gone", pa.bool_()), ("a", pa.int64()), ("b", pa.string()),
        ("d", pa.struct([("x", pa.float64())])), ("tags", pa.list_(pa.string())), ("un", pa.list_(pa.string())),
    ]
)  # fmt: skip
FILTERS = {
    "low": "a < 3", "high": "a >= 3 AND b != 'u'", "big": f"a = {2**53 + 1}", "x": "d.x BETWEEN 1 AND 5",
    "tag": "tags CONTAINS 'p'", "none": "b IS MISSING", "not": "NOT (a = 1 OR b = 'v')",
}  # fmt: skip
LATER = {**{id: text for id, text in FILTERS.items() if id != "x"}, "low": "a < 5", "new": "b = 'v'"}

Told = tuple[Any, Any, str, int | None, int]
"""Key, subscription, kind, sequence, version."""


class Model:
    """The newest state of each key, matched by the reference evaluator; attributes by their path."""

    def __init__(self, leave: bool, partial: bool) -> None:
        self.leave, self.partial = leave, partial
        self.states: dict[Any, dict[str, Any] | None] = {}
        self.last: dict[Any, int] = {}
        self.filters: dict[Any, Filter] = {}
        self.version = 0

    def matched(self, state: dict[str, Any] | None) -> set[Any]:
        """Who matches a state; nobody without one."""
        if state is None:
            return set()
        event = {name: value for name, value in state.items() if value is not None}
        if "d.x" in event:
            event["d"] = {"x": event.pop("d.x")}
        return {id for id, each in self.filters.items() if each.matches(event)}

    def publish(self, filters: dict[Any, str], version: int) -> list[Told]:
        """A new version of the index."""
        before = {key: self.matched(state) for key, state in self.states.items()}
        self.filters = {id: Filter.parse(text) for id, text in filters.items()}
        self.version = version
        told: list[Told] = []
        for key, old in before.items():
            new = self.matched(self.states[key])
            told += [(key, id, "enter", None, version) for id in new - old]
            told += [(key, id, "leave", None, version) for id in old - new if self.leave and id in filters]
        return told

    def update(self, rows: Iterable[dict[str, Any]]) -> list[Told]:
        """The updates of a micro-batch."""
        told: list[Told] = []
        for row in sorted(rows, key=lambda row: row["n"]):
            key, number = row["key"], row["n"]
            if number <= self.last.get(key, -1):
                continue
            self.last[key] = number
            before = self.states.get(key)
            state = None if row["gone"] else self._next(before or {}, row)
            old, new = self.matched(before), self.matched(state)
            self.states[key] = state
            told += [(key, id, "enter", number, self.version) for id in new - old]
            kind = "delete" if row["gone"] else "leave"
            told += [(key, id, kind, number, self.version) for id in old - new if row["gone"] or self.leave]
        return told

    def _next(self, before: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
        said = {"a": row["a"], "b": row["b"], "d.x": (row["d"] or {}).get("x"), "tags": row["tags"]}
        if not self.partial:
            return said
        state = {name: before.get(name) if value is None else value for name, value in said.items()}
        return {name: None if name in (row["un"] or ()) else value for name, value in state.items()}


def history(seed: int, count: int, keys: int = 15) -> list[dict[str, Any]]:
    """Updates of a few keys in order, some of them late, some deletions."""
    draw = random.Random(seed)
    rows = []
    for number in range(count):
        rows.append(
            {
                "key": f"k{draw.randrange(keys)}",
                "n": number if draw.random() < 0.9 else max(0, number - draw.randrange(60)),
                "gone": draw.random() < 0.1 or None,
                "a": draw.choice([None, draw.randrange(6), 2**53 + 1]),
                "b": draw.choice([None, "", "u", "v"]),
                "d": draw.choice([None, {"x": None}, {"x": draw.random() * 8}]),
                "tags": draw.choice([None, [], ["p"], ["q", "p"]]),
                "un": draw.choice([None, None, [], ["b"], ["d.x", "nobody", None], ["tags", "a"]]),
            }
        )
    used: set[tuple[str, int]] = set()  # two updates of a key with one number have no order
    return [row for row in rows if (row["key"], row["n"]) not in used and not used.add((row["key"], row["n"]))]  # type: ignore[func-returns-value]
