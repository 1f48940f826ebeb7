"""What the survey's experiments share: 50 properties, events with a share of ones, and its five algorithms."""

from __future__ import annotations

from whimbrel.lab.harness.contenders import Series, plain
from whimbrel.lab.workloads import Workload, make

TREE: Series = {"tree_match": ("equality_tree", {"collapse": False, "successors": False, "aggressive": False})}
"""The survey's TreeMatch: the equality tree over two values, without its later optimisations."""
ALL = {**plain("naive", "compiled_naive", "rapid", "modified_rapid", "sgim"), **TREE}


def workload_of(n: int, ones: float) -> Workload:
    """`n` subscriptions over {0, 1, *}, and events with that share of ones."""
    return make("properties", n=n, events=50 if n < 250 else 400, ones=ones)
