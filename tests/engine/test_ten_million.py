"""Ten million subscriptions in one index: in 4 GB, saved, opened by another process, and still matched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 4 << 30
EVENTS = 50
BUILD = """
import json, sys
from whimbrel import Index
from whimbrel.lab.workloads import lesubscribe
index = Index()
for part in range(10):
    rows = lesubscribe(1_000_000, p=0.5, events=1, seed=part).subscriptions
    index.add_many((part * 1_000_000 + id, text) for id, text in zip(*rows.to_pydict().values()))
index.save(sys.argv[1])
stats = index.stats()
print(json.dumps({"subscriptions": len(index), "bytes": stats["bytes_per_subscription"] * len(index)}))
"""
MATCH = """
import json, resource, sys
from whimbrel import Index
from whimbrel.lab.workloads import lesubscribe

def pairs(index):
    found = index.match_batch(events)
    return found["event"].to_numpy() * 10_000_000 + found["subscription"].to_numpy()

index = Index.open(sys.argv[1])
events = lesubscribe(1, p=0.5, events=int(sys.argv[2])).events
found = pairs(index)
own = Index()
own.add_many(lesubscribe(1_000_000, p=0.5, events=1, seed=0).subscriptions)
same = sorted(pairs(own)) == sorted(found[found % 10_000_000 < 1_000_000])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"pairs": len(found), "same": same, "peak": peak}))
"""


def _run(program: str, *arguments: str) -> dict[str, int]:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, int] = json.loads(done.stdout)
    return told


@pytest.mark.soak
def test_ten_million_subscriptions_fit_and_match(tmp_path: Path) -> None:
    built = _run(BUILD, str(tmp_path / "index"))
    assert built["subscriptions"] == 10_000_000
    assert built["bytes"] < LIMIT
    seen = _run(MATCH, str(tmp_path / "index"), str(EVENTS))
    assert seen["pairs"] > EVENTS * 60_000 and seen["same"]
    assert seen["peak"] < LIMIT  # the million that it is compared with is among them
