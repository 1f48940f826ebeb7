"""Publications and the subscriptions on them as a plain fold: Filter.matches on merged states, one pair at a time."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from whimbrel.model.event import Event
from whimbrel.model.filter import Filter

Message = tuple[str, str, Any]
"""Kind, key, state (None with delete)."""


@dataclass
class ReferenceSubscription:
    """What a subscription asks for, who is inside (and when it leaves, if it is out), and what it was told."""

    filter: str
    leave: bool = False
    outer: str | None = None
    dwell: float = 0.0
    inside: dict[str, float | None] = field(default_factory=dict)
    told: list[list[Message]] = field(default_factory=list)

    def is_in(self, state: dict[str, Any]) -> bool:
        return Filter.parse(self.filter).matches(Event.of(state))

    def is_near(self, state: dict[str, Any]) -> bool:
        return self.is_in(state) or (self.outer is not None and Filter.parse(self.outer).matches(Event.of(state)))


def merge(state: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    out = dict(state) if isinstance(state, dict) else {}
    for name, value in patch.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = merge(out.get(name), value)
    return out


class ReferenceTopic:
    """The fold. `time` is in seconds and moves on by `wait`."""

    def __init__(self) -> None:
        self.states: dict[str, dict[str, Any]] = {}
        self.subscriptions: dict[str, ReferenceSubscription] = {}
        self.time = 1_000.0

    def put(self, key: str, state: dict[str, Any]) -> None:
        self.states[key] = json.loads(json.dumps(state))
        for subscription in self.subscriptions.values():
            self._see(subscription, [key])

    def patch(self, key: str, patch: dict[str, Any]) -> None:
        if key in self.states:
            self.put(key, merge(self.states[key], patch))

    def delete(self, key: str) -> None:
        if self.states.pop(key, None) is not None:
            for subscription in self.subscriptions.values():
                if key in subscription.inside:
                    del subscription.inside[key]
                    subscription.told.append([("delete", key, None)])

    def subscribe(self, id: str, **asked: Any) -> None:
        """A new subscription, or another filter and other options for one."""
        self.add(id, ReferenceSubscription(**asked))

    def add(self, id: str, new: ReferenceSubscription) -> None:
        old = self.subscriptions.get(id)
        self.subscriptions[id] = new
        if old is not None:
            new.inside, new.told = old.inside, old.told
        self._see(new, list(self.states))

    def unsubscribe(self, id: str) -> None:
        del self.subscriptions[id]

    def wait(self, seconds: float) -> None:
        self.time += seconds
        for subscription in self.subscriptions.values():
            due = {key for key, when in subscription.inside.items() if when is not None and when <= self.time}
            for key in due:
                del subscription.inside[key]
            if due and subscription.leave:
                subscription.told.append([("leave", key, self.states[key]) for key in due])

    def _see(self, subscription: ReferenceSubscription, keys: list[str]) -> None:
        told: list[Message] = []
        for key in keys:
            state = self.states[key]
            if subscription.is_in(state):
                if key not in subscription.inside:
                    told.append(("enter", key, state))
                subscription.inside[key] = None
            elif key in subscription.inside:
                if subscription.is_near(state):
                    subscription.inside[key] = None
                elif subscription.dwell > 0:
                    if subscription.inside[key] is None:
                        subscription.inside[key] = self.time + subscription.dwell
                else:
                    del subscription.inside[key]
                    if subscription.leave:
                        told.append(("leave", key, state))
        if told:
            subscription.told.append(told)


Span = tuple[float, float]


@dataclass
class ReferenceRegion(ReferenceSubscription):
    """A subscription on a space: closed spans of numbers by dimension, and margins for hysteresis."""

    spans: dict[str, Span] = field(default_factory=dict)
    margins: dict[str, float] = field(default_factory=dict)

    def is_in(self, state: dict[str, Any]) -> bool:
        return _overlap(self.spans, state)

    def is_near(self, state: dict[str, Any]) -> bool:
        wide = {
            name: (low - self.margins.get(name, 0), high + self.margins.get(name, 0))
            for name, (low, high) in self.spans.items()
        }
        return _overlap(wide, state)


def _overlap(spans: dict[str, Span], state: dict[str, Any]) -> bool:
    """A dimension that only one side constrains never keeps them apart."""
    region = state["regions"][0]
    return all(
        region[name][0] <= high and low <= region[name][1] for name, (low, high) in spans.items() if name in region
    )
