"""Judge a history of publications: was every transition told, once, in order, and nothing else?

A history is a list of JSON objects, in the order in which things happened to each client. A topic is `publications`, or
`spaces/NAME`, whose states are `{"regions": [{dimension: [low, high]}]}` with one region of closed spans:

    {"op": "updated", "on": topic, "key": k, "state": s, "offset": n}       the broker has it; state None for a delete,
                                                                            whose offset is None if nobody was told it
    {"op": "version", "subscription": s, "on": topic, "asked": f, "leave": b, "from": n}     f: a filter, or spans
    {"op": "session", "subscription": s, "session": k}                      a consumer starts to read
    {"op": "told", "subscription": s, "session": k, "cursor": c, "kind": ..., "key": ...}

It knows nothing of a broker but these lines: `Filter.matches`, or the overlap of spans, says who should be told what.
A message may come again in a later session, with the same cursor; within a session cursors ascend.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from whimbrel.lab.delivery_checker import HistoryVerdict, Line
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter

_Told = tuple[float, str, str]
"""Offset, key, kind."""


def judge_transitions(history: Iterable[Line]) -> HistoryVerdict:
    """The verdict on a history; `acked` counts updates."""
    verdict = HistoryVerdict()
    lines = list(history)
    versions: dict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line["op"] == "version" and line not in versions[line["subscription"]]:
            versions[line["subscription"]].append(line)
    seen = _deliveries(lines, verdict)
    updates = _placed([line for line in lines if line["op"] == "updated"], versions, seen)
    verdict.acked = len(updates)
    for name, own in versions.items():
        expected = _expected(own, [line for line in updates if line["on"] == own[0]["on"]])
        found = set(seen[name].values())
        for one in sorted(expected - found):
            verdict.problems["lost"].append(f"{one} for {name}")
        for one in sorted(found - expected):
            verdict.problems["wrong"].append(f"{one} for {name}")
        if len(found) < len(seen[name]):
            verdict.problems["doubled"].append(f"{len(seen[name]) - len(found)} for {name}")
    return verdict


def _placed(
    updates: list[Line], versions: Mapping[str, list[Line]], seen: Mapping[str, Mapping[str, _Told]]
) -> list[Line]:
    """The updates with offsets: a delete that was not answered is where somebody was told of it, or just behind."""
    by_key: dict[tuple[str, str], list[Line]] = defaultdict(list)
    for line in updates:
        by_key[line["on"], line["key"]].append(line)
    placed: list[Line] = []
    for (on, key), own in by_key.items():
        told = {
            offset
            for name, deliveries in seen.items()
            for offset, about, kind in deliveries.values()
            if kind == "delete" and about == key and versions[name][0]["on"] == on
        }
        last: float = -1
        for place, line in enumerate(own):
            if line["offset"] is None:
                following = (later["offset"] for later in own[place + 1 :] if later["offset"] is not None)
                until = next(following, float("inf"))
                between = [offset for offset in told if last < offset < until]
                line = {**line, "offset": min(between, default=last + 0.5)}  # noqa: PLW2901
            last = line["offset"]
            placed.append(line)
    return placed


def _deliveries(lines: list[Line], verdict: HistoryVerdict) -> dict[str, dict[str, _Told]]:
    """What each subscription was told, by cursor; notes what came out of order or differs from a former time."""
    seen: dict[str, dict[str, _Told]] = defaultdict(dict)
    reached: dict[tuple[str, object], tuple[int, int]] = {}
    for line in lines:
        if line["op"] != "told":
            continue
        name, cursor = line["subscription"], line["cursor"]
        offset, _, part = cursor.partition(".")
        told = int(offset), line["key"], line["kind"]
        verdict.delivered += 1
        verdict.repeated += cursor in seen[name]
        if seen[name].setdefault(cursor, told) != told:
            verdict.problems["wrong"].append(f"{told} and {seen[name][cursor]} at {cursor} for {name}")
        place, session = (int(offset), int(part or 0)), (name, line["session"])
        if place <= reached.get(session, (-1, 0)):
            verdict.problems["out of order"].append(f"{session}: {cursor} behind {reached[session]}")
        reached[session] = place
    return seen


def _expected(versions: list[Line], updates: list[Line]) -> set[_Told]:
    """What a subscription must be told: a fold over the updates of its topic and its own versions, by offset."""
    steps = sorted([(line["from"], line) for line in versions] + [(line["offset"], line) for line in updates], key=_at)
    states: dict[str, Any] = {}
    inside: set[str] = set()
    version: Line | None = None
    told: set[_Told] = set()
    for offset, line in steps:
        keys = list(states)
        if line["op"] == "version":
            version = line
        else:
            keys = [line["key"]]
            if line["state"] is None:
                states.pop(line["key"], None)
            else:
                states[line["key"]] = line["state"]
        for key in keys if version is not None else ():
            assert version is not None
            if key not in states:
                kind = "delete" if key in inside else None
            elif _matches(version["asked"], states[key]):
                kind = None if key in inside else "enter"
            else:
                kind = "leave" if key in inside else None
            if kind == "enter":
                inside.add(key)
            elif kind is not None:
                inside.discard(key)
            if kind is not None and (kind != "leave" or version["leave"]):
                told.add((offset, key, kind))
    return told


def _at(step: tuple[int, Line]) -> int:
    return step[0]


def _matches(asked: Any, state: Any) -> bool:
    if isinstance(asked, Mapping):
        region = state["regions"][0]
        return all(
            region[name][0] <= high and low <= region[name][1] for name, (low, high) in asked.items() if name in region
        )
    return Filter.parse(asked).matches(Event.of(state))
