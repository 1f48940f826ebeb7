"""The warm-up of a broker: afterwards neither events nor changes nor spaces load a kernel."""

from __future__ import annotations

import subprocess
import sys

NOTED = """
from whimbrel.broker.service.warm_up import warm_up
from whimbrel.compiled.cache import CompiledCache

warm_up()
loaded = []
load = CompiledCache.load_overload
def noted(self, *arguments):
    loaded.append(self._function.__qualname__)
    return load(self, *arguments)
CompiledCache.load_overload = noted
"""
ENGINE = """
from whimbrel.engine.index import Index
from whimbrel.log.matched_numbers import match_events

index = Index()
events = [b'{"data": {"kind": "app", "number": %d, "tags": ["a", "b"]}}' % number for number in range(50)]
filter = "data.kind = 'app' AND data.number = %d AND data.tags CONTAINS 'a'"
for number in range(3):
    index.add(number, filter % number)
    assert len(match_events(index, events).numbers) == number + 1
index.merge()
for number in range(3, 60):
    index.add(number, filter % number)
    if number % 2:
        index.remove(number)
    match_events(index, events)
index.merge()
assert match_events(index, events).numbers.tolist() == [0, 1, 2, *range(4, 50, 2)]
"""
SPACES = """
from whimbrel.spaces import SubjectSpaces

spaces = SubjectSpaces()
spaces.define("town", {"x": "number", "t": "timestamp", "name": "string"})
region = {"x": "[0, 10)", "t": "[2026-01-01, 2026-02-01]"}
for number in range(20):
    margin = {"x": 1.0} if number % 2 else {}
    spaces.subscribe(number, [region, {"name": "a"}], leave=True, hysteresis=margin, dwell=number % 3, now=1.0)
assert len(spaces.publish("taxi", [{"x": 3, "t": "2026-01-05"}], now=2.0)) == 20
spaces.update_publication("taxi", [{"x": 20, "name": "b"}], now=3.0)
spaces.update_subscription(0, [{"x": "(5, inf)"}], now=4.0)
spaces.advance(9.0)
spaces.delete_publication("taxi", now=10.0)
spaces.unsubscribe(1, now=11.0)
"""


def test_changes_events_and_spaces_after_it_load_nothing() -> None:
    whole = NOTED + ENGINE + SPACES + "print(*loaded)"
    done = subprocess.run([sys.executable, "-c", whole], capture_output=True, check=True, text=True)
    assert done.stdout.split() == []
