"""The warm-up of a broker: afterwards neither events nor changes load a kernel, however the index is built."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from whimbrel.broker.service.warm_up import warm_up
from whimbrel.compiled.cache import CompiledCache
from whimbrel.engine.index import Index
from whimbrel.log.matched_numbers import match_events

warm_up()
loaded = []
load = CompiledCache.load_overload
def noted(self, *arguments):
    loaded.append(self._function.__qualname__)
    return load(self, *arguments)
CompiledCache.load_overload = noted

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
print(*loaded)
"""


def test_changes_and_events_after_it_load_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True, text=True)
    assert done.stdout.split() == []
