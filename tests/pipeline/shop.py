"""Generated events of every column shape and filters over them, with the reference evaluator's word on who matches."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from whimbrel import Filter

SCHEMA = (
    "event_id bigint, a int, b double, c string, ok boolean, at timestamp, tags array<string>, "
    "d struct<x: int, deep: struct<y: string>>, m map<string, int>, "
    "items array<struct<sku: string, n: int>>, unused int"
)
START = datetime(2026, 1, 1, tzinfo=UTC)


def make_events(count: int, seed: int = 0) -> list[tuple[Any, ...]]:
    """Rows of the schema above, with nulls in every place."""
    draw = random.Random(seed)

    def some(make: Any, share: float = 0.7) -> Any:
        return make() if draw.random() < share else None

    def word() -> str:
        return draw.choice(["red", "green", "blue", "Oslo", "ø", ""])

    return [
        (
            number,
            some(lambda: draw.randrange(8)),
            some(lambda: draw.choice([0.5, 1.0, 2.5, float("nan"), -3.0, 7.0])),
            some(word),
            some(lambda: draw.random() < 0.5),
            some(lambda: START + timedelta(hours=draw.randrange(48))),
            some(lambda: [some(word, 0.9) for _ in range(draw.randrange(4))]),
            some(lambda: (some(lambda: draw.randrange(5)), some(lambda: (some(word),)))),
            some(lambda: {key: some(lambda: draw.randrange(4), 0.8) for key in "pqr" if draw.random() < 0.5}),
            some(lambda: [(word(), some(lambda: draw.randrange(4))) for _ in range(draw.randrange(3))]),
            draw.randrange(100),
        )
        for number in range(count)
    ]


def as_object(row: tuple[Any, ...]) -> dict[str, Any]:
    """The event that a row is: a null cell or field is no key, a null in a list or map is a null."""
    names = ("event_id", "a", "b", "c", "ok", "at", "tags", "d", "m", "items", "unused")
    event: dict[str, Any] = {name: value for name, value in zip(names, row, strict=True) if value is not None}
    if event.get("b") != event.get("b"):
        del event["b"]
    if "d" in event:
        x, deep = event.pop("d")
        event["d"] = {} if x is None else {"x": x}
        if deep is not None and deep[0] is not None:
            event["d"]["deep"] = {"y": deep[0]}
    if "items" in event:
        event["items"] = [{"sku": sku} if n is None else {"sku": sku, "n": n} for sku, n in event["items"]]
    return event


def make_filters(count: int, seed: int = 0) -> list[str]:
    """Texts of filters over all attributes, some of which no event has."""
    draw = random.Random(seed)
    pieces = [
        lambda: f"a {draw.choice(['=', '<', '>=', '!='])} {draw.randrange(8)}",
        lambda: f"a IN ({draw.randrange(8)}, {draw.randrange(8)})",
        lambda: f"b BETWEEN {draw.choice([-5, 0, 1])} AND {draw.choice([1, 2.5, 9])}",
        lambda: f"c = '{draw.choice(['red', 'green', 'Oslo', 'ø'])}'",
        lambda: f"c LIKE '%{draw.choice('edlo')}%'",
        lambda: "ok",
        lambda: f"at < TIMESTAMP '2026-01-0{draw.randrange(1, 4)}T{draw.randrange(10, 24)}:00:00Z'",
        lambda: f"tags CONTAINS '{draw.choice(['red', 'blue', ''])}'",
        lambda: "tags CONTAINS NULL",
        lambda: f"d.x > {draw.randrange(5)}",
        lambda: f"d.deep.y = '{draw.choice(['red', 'blue'])}'",
        lambda: f"m.{draw.choice('pqr')} = {draw.randrange(4)}",
        lambda: f"m.{draw.choice('pqr')} IS NULL",
        lambda: f"items.sku = 'red' AND items.n >= {draw.randrange(4)}",
        lambda: "a < d.x",
        lambda: f"{draw.choice(['a', 'b', 'c', 'd.x', 'm.p', 'tags', 'nowhere'])} IS MISSING",
    ]
    out = []
    for _ in range(count):
        parts = [draw.choice(pieces)() for _ in range(draw.randrange(1, 4))]
        negated = [f"NOT ({part})" if draw.random() < 0.15 else f"({part})" for part in parts]
        out.append(draw.choice([" AND ", " AND ", " OR "]).join(negated))
    return out


def expected_pairs(rows: list[tuple[Any, ...]], texts: dict[Any, str]) -> list[tuple[Any, Any]]:
    """Every (event id, subscription id) that the reference evaluator finds, sorted."""
    filters = {id: Filter.parse(text) for id, text in texts.items()}
    return sorted(
        (row[0], id) for row in rows for event in [as_object(row)] for id, one in filters.items() if one.matches(event)
    )
