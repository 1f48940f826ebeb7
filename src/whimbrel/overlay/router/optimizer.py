"""The tree optimizer: one router that decides what the tree is, and when the others get a new version.

It hears of every filter that comes and goes. When its tree differs from the published one by more than a threshold, or
when changes have waited for some time, it publishes the changes as a new version. It may fail: routers go on with the
versions that they have, and what they have not in a version they place as well as they can. When it comes back it
begins a new epoch with the filters that are there.

Z. Jerzak, C. Fetzer: Prefix Forwarding for Publish/Subscribe, DEBS 2007, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass

from whimbrel.overlay.router.router_messages import TreeUpdate
from whimbrel.overlay.tree.paths import Interest
from whimbrel.overlay.tree.prefix import EMPTY_VERSION, Version
from whimbrel.overlay.tree.tree_store import TreeStore

_NODES_PER_CHANGE = 256
"""A version has at least one change for so many nodes of the tree, unless it waited for the trigger.

A version takes time for every node. Ranges that come from the narrowest to the widest change the top of the tree each
time, and would make a version for every filter."""


@dataclass(frozen=True, slots=True)
class OptimizerSettings:
    """When a version is published: above `threshold` (0 to 1), or `trigger` seconds after a change; None: never."""

    threshold: float = 0.3
    trigger: float | None = 600.0


class TreeOptimizer:
    """Collects changes of filters in the tree of a store, and makes versions of them."""

    def __init__(self, epoch: int, trees: TreeStore, settings: OptimizerSettings) -> None:
        self.epoch = epoch
        self._trees = trees
        self._settings = settings
        self._changes: list[Interest | bytes] = []
        self._since: float | None = None
        self._version: Version = (epoch, 0)
        trees.restart(is_led=True)

    def change(self, change: Interest | bytes) -> None:
        """Insert a new filter into the tree, or remove the filter with a key. The change is published later."""
        self._trees.change(change)
        self._changes.append(change)

    def due(self, now: float) -> float | None:
        """The time at which the changes so far are to be published; None for never."""
        if not self._changes:
            self._since = None
            return None
        if self._since is None:
            self._since = now
        is_worth_it = len(self._changes) * _NODES_PER_CHANGE >= len(self._trees.latest)
        if is_worth_it and self._trees.difference() > self._settings.threshold:
            return now
        return None if self._settings.trigger is None else self._since + self._settings.trigger

    def publish(self) -> TreeUpdate:
        """Make a version of the changes so far, and return the update."""
        base = EMPTY_VERSION if self._version[1] == 0 else self._version
        self._version = (self.epoch, self._version[1] + 1)
        changes, self._changes, self._since = tuple(self._changes), [], None
        snapshot = self._trees.commit(self._version, changes)
        return TreeUpdate(self._version, base, changes, snapshot.digest)
