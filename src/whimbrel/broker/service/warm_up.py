"""Warm-up of a broker: what matching, changes and subject spaces use is loaded, or compiled, before requests come.

A kernel takes some milliseconds to load when it is first called, and seconds where it was never compiled on this
machine. The sequencer would take them, with every request behind it waiting.
"""

from __future__ import annotations

from whimbrel.engine.index import Index
from whimbrel.log.matched_numbers import match_events
from whimbrel.spaces import SubjectSpaces

_FILTERS = ["a = 1 AND b = 'x'", "a > 2 AND c < 5", "t CONTAINS 'y' AND d.e != 3", "a < 4 OR c BETWEEN 1 AND 2"]
_EVENTS = [b'{"a": 1, "b": "x", "c": 1.5}', b'{"a": 3, "t": ["y"], "d": {"e": null}}']


def warm_up() -> None:
    """Do on a small scale what the sequencer and the thread that merges do."""
    _change_an_index()
    _change_a_space()


def _change_an_index() -> None:
    """Match events and change subscriptions, also between merges."""
    index = Index()
    index.add_many(enumerate(f"{text} AND n <= {number}" for number, text in enumerate(_FILTERS * 4)))
    match_events(index, _EVENTS)
    for number, text in enumerate(_FILTERS, 100):
        index.add(number, text)
    match_events(index, _EVENTS)
    for number in (0, 100):
        index.remove(number)
    match_events(index, _EVENTS)
    index.merge()
    match_events(index, _EVENTS)


def _change_a_space() -> None:
    """Let a publication enter and leave subscriptions with one region and with several."""
    spaces = SubjectSpaces()
    spaces.define("warm-up", {"x": "number", "y": "number"})
    for number in range(2):
        regions = [{"x": "[0, 5]", "y": "[0, 5]"}, {"x": "[9, 9]"}][: number + 1]
        spaces.subscribe(number, regions, leave=True, hysteresis={"x": float(number)}, dwell=number, now=0.0)
    spaces.publish("key", [{"x": 1, "y": 1}], now=0.0)
    spaces.update_publication("key", [{"x": 7}, {"y": 8}], now=0.0)
    spaces.update_subscription(0, [{"x": "[6, 8]"}], now=0.0)
    spaces.advance(2.0)
    spaces.delete_publication("key", now=2.0)
    spaces.unsubscribe(0, now=2.0)
