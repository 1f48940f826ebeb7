"""Warm-up of a broker: what matching and changes of subscriptions use is loaded, or compiled, before requests come.

A kernel takes some milliseconds to load when it is first called, and seconds where it was never compiled on this
machine. The sequencer would take them, with every request behind it waiting.
"""

from __future__ import annotations

from whimbrel.engine.index import Index
from whimbrel.log.matched_numbers import match_events

_FILTERS = ["a = 1 AND b = 'x'", "a > 2 AND c < 5", "t CONTAINS 'y' AND d.e != 3", "a < 4 OR c BETWEEN 1 AND 2"]
_EVENTS = [b'{"a": 1, "b": "x", "c": 1.5}', b'{"a": 3, "t": ["y"], "d": {"e": null}}']


def warm_up() -> None:
    """Match and change a small index, as the sequencer and the thread that merges do."""
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
