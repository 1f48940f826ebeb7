"""How shards are spread over tasks: each task has all shards, or one group of them.

With `replicate`, a task matches its events against all shards, one after the other. With `shard`, the shards are put
into groups that fit the budget of a worker, each pair of a part of the events and a group is a task, and the results of
an event are joined afterwards. That sends more data, but no host has to hold more than a group in memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from whimbrel.pipeline.errors import OptionError
from whimbrel.pipeline.index.store import Shard

PLANS = ("auto", "replicate", "shard")


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """The plan: its name, the groups of shards by their numbers in the manifest, and the sizes that decided."""

    name: str
    groups: tuple[tuple[int, ...], ...]
    bytes: int
    budget: int


def choose_plan(plan: str, shards: Sequence[Shard], budget: int | None = None) -> ShardPlan:
    """The plan of this name; with `auto` the one that fits the sizes."""
    if plan not in PLANS:
        raise OptionError("plan", plan, f"one of {', '.join(PLANS)}")
    if budget is not None and budget <= 0:
        raise OptionError("budget", budget, "a number of bytes above 0")
    # By default half of the memory of this host: Spark and other processes get the other half.
    allowed = budget or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    size = sum(shard.bytes for shard in shards)
    every = tuple(range(len(shards)))
    if plan == "replicate" or (plan == "auto" and size <= allowed):
        return ShardPlan("replicate", (every,), size, allowed)
    groups = _groups(shards, allowed) if size > allowed else [(number,) for number in every]
    return ShardPlan("shard", tuple(groups) or ((),), size, allowed)


def _groups(shards: Sequence[Shard], budget: int) -> list[tuple[int, ...]]:
    """Group shards in order, as many as fit the budget; a shard that is larger has a group of its own."""
    groups: list[tuple[int, ...]] = []
    group: tuple[int, ...] = ()
    size = 0
    for number, shard in enumerate(shards):
        if group and size + shard.bytes > budget:
            groups.append(group)
            group, size = (), 0
        group, size = (*group, number), size + shard.bytes
    return [*groups, group] if group else groups
