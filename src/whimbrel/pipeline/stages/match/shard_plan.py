"""How events meet shards: every task has all shards, or each has one group of them.

With `replicate`, a task matches its events against all shards, one after the other. With `shard`, the shards are put
into groups that fit the budget of a worker, every (part of the events, group) is a task, and the results of an event
are put together afterwards: more traffic, but no host has to hold more than a group in memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from whimbrel.pipeline.errors import OptionError
from whimbrel.pipeline.index.store import Shard

PLANS = ("auto", "replicate", "shard")


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan by name, and the groups: numbers of shards, as they lie in the manifest."""

    name: str
    groups: tuple[tuple[int, ...], ...]
    bytes: int
    budget: int


def default_budget() -> int:
    """Half of the memory of this host: the other half is for Spark and for what the pages stand aside for."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def choose_plan(plan: str, shards: Sequence[Shard], budget: int | None = None) -> Plan:
    """The plan by name, or the one that the sizes ask for."""
    if plan not in PLANS:
        raise OptionError("plan", plan, f"one of {', '.join(PLANS)}")
    if budget is not None and budget <= 0:
        raise OptionError("budget", budget, "a number of bytes above 0")
    allowed = default_budget() if budget is None else budget
    size = sum(shard.bytes for shard in shards)
    every = tuple(range(len(shards)))
    if plan == "replicate" or (plan == "auto" and size <= allowed):
        return Plan("replicate", (every,), size, allowed)
    groups = _groups(shards, allowed) if size > allowed else [(number,) for number in every]
    return Plan("shard", tuple(groups) or ((),), size, allowed)


def _groups(shards: Sequence[Shard], budget: int) -> list[tuple[int, ...]]:
    """Shards in order, as many in a group as fit; one that is too large is alone."""
    groups: list[tuple[int, ...]] = []
    group: tuple[int, ...] = ()
    size = 0
    for number, shard in enumerate(shards):
        if group and size + shard.bytes > budget:
            groups.append(group)
            group, size = (), 0
        group, size = (*group, number), size + shard.bytes
    return [*groups, group] if group else groups
