"""Judge a history of publishes and deliveries: was anything lost, wrong, out of order, or repeated without need?

A history is a file of JSON lines, in the order in which things happened to each client:

    {"op": "attempt", "event": {...}}                                       somebody is about to publish a CloudEvent
    {"op": "acked", "source": s, "id": i, "offset": n}                      the broker says that it has it
    {"op": "version", "subscription": s, "filter": f, "from": n}            s sees events from offset n on, by filter f
    {"op": "ended", "subscription": s, "until": n}                          s sees events below n only
    {"op": "session", "subscription": s, "session": k, "after": n}          a consumer starts to read behind offset n
    {"op": "delivered", "subscription": s, "session": k, "source": ..., "id": ..., "offset": n}

It knows nothing of a broker but these lines: `Filter.matches` decides who should have got what. A delivery may be
repeated in a later session that starts at an earlier cursor; within a session offsets ascend and lie behind its start.

    python -m whimbrel.lab.delivery_checker history.jsonl
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.model.event import Event
from whimbrel.model.filter import Filter

Line = Mapping[str, Any]
_Key = tuple[str, str]


@dataclass
class HistoryVerdict:
    """What was found; a good history has no problems. `recovered` events were stored although nobody was told."""

    acked: int = 0
    delivered: int = 0
    repeated: int = 0
    recovered: int = 0
    problems: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost, wrong, out of order or doubled."""
        return not self.problems

    def __str__(self) -> str:
        counts = f"{self.acked:,} acknowledged, {self.delivered:,} delivered ({self.repeated:,} again)"
        found = "; ".join(f"{len(cases):,} {kind}, such as {cases[0]}" for kind, cases in self.problems.items())
        return f"{counts}, {self.recovered:,} recovered: {found or 'nothing lost, wrong or out of order'}"


class _Subscription:
    """What one subscription should see, and what it got."""

    def __init__(self) -> None:
        self.versions: list[tuple[int, Filter]] = []
        self.until: float = float("inf")
        self.seen: dict[int, _Key] = {}

    def filter_at(self, offset: int) -> Filter | None:
        """The filter that was valid for an event at that offset."""
        if offset >= self.until:
            return None
        valid = [filter for start, filter in self.versions if start <= offset]
        return valid[-1] if valid else None


def judge(history: Iterable[Line]) -> HistoryVerdict:
    """Judge a history, line by line."""
    verdict = HistoryVerdict()
    attempted: dict[_Key, Event] = {}
    offsets: dict[_Key, int] = {}  # where an event is, as told by acknowledgements and deliveries
    acked: set[_Key] = set()
    subscriptions: dict[str, _Subscription] = defaultdict(_Subscription)
    reached: dict[tuple[str, object], int] = {}

    def at(key: _Key, offset: int) -> None:
        if offsets.setdefault(key, offset) != offset:
            verdict.problems["doubled"].append(f"{key} at {offsets[key]} and at {offset}")

    for line in history:
        op = line["op"]
        if op == "attempt":
            event = line["event"]
            attempted[event["source"], event["id"]] = Event.of(event)
        elif op == "acked":
            key = line["source"], line["id"]
            acked.add(key)
            at(key, line["offset"])
        elif op == "version":
            subscriptions[line["subscription"]].versions.append((line["from"], Filter.parse(line["filter"])))
        elif op == "ended":
            subscriptions[line["subscription"]].until = line["until"]
        elif op == "session":
            reached[line["subscription"], line["session"]] = line["after"]
        elif op == "delivered":
            key, offset = (line["source"], line["id"]), line["offset"]
            at(key, offset)
            verdict.delivered += 1
            seen = subscriptions[line["subscription"]].seen
            verdict.repeated += offset in seen
            seen[offset] = key
            session = line["subscription"], line["session"]
            if offset <= reached[session]:
                verdict.problems["out of order"].append(f"{session}: {offset} behind {reached[session]}")
            reached[session] = max(reached[session], offset)
        else:
            raise ValueError(f"Expected an operation of a history, but got {op!r}")
    verdict.acked = len(acked)
    verdict.recovered = len(offsets.keys() - acked)
    for name, subscription in subscriptions.items():
        _judge_one(name, subscription, attempted, {key: offsets[key] for key in acked}, verdict)
    return verdict


def _judge_one(
    name: str,
    subscription: _Subscription,
    attempted: dict[_Key, Event],
    acked: dict[_Key, int],
    verdict: HistoryVerdict,
) -> None:
    for key, offset in acked.items():
        filter = subscription.filter_at(offset)
        if filter is not None and offset not in subscription.seen and filter.matches(attempted[key]):
            verdict.problems["lost"].append(f"{key} at {offset} for {name}")
    for offset, key in subscription.seen.items():
        filter = subscription.filter_at(offset)
        if key not in attempted:
            verdict.problems["wrong"].append(f"{key} at {offset} for {name}, which nobody published")
        elif filter is None or not filter.matches(attempted[key]):
            verdict.problems["wrong"].append(f"{key} at {offset} for {name}")


def read_history(path: Path) -> Iterable[Line]:
    """The lines of a history file, as objects."""
    with path.open("rb") as file:
        for line in file:
            yield msgspec.json.decode(line)


if __name__ == "__main__":
    found = judge(read_history(Path(sys.argv[1])))
    sys.stdout.write(f"{found}\n")
    sys.exit(0 if found.is_good else 1)
