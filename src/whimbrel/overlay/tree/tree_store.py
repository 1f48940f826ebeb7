"""The versions of the tree that a process has, and how a new one is made from the last."""

from __future__ import annotations

from collections.abc import Sequence

from whimbrel.overlay.tree.paths import Interest
from whimbrel.overlay.tree.prefix import EMPTY_VERSION, Version
from whimbrel.overlay.tree.routing_tree import RoutingTree
from whimbrel.overlay.tree.tree_bytes import MalformedTree, chained, decode_tree, encode_changes
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot, empty_snapshot

LIVE_VERSIONS = 4
"""Versions that are kept: an event that was matched on an older one is matched again."""


class TreeStore:
    """The last versions, and the tree of the youngest. Routers of one process may share one: a version is made once."""

    def __init__(self, decay: float = 0.5) -> None:
        self.decay = decay
        self._tree = RoutingTree(decay)
        self._snapshots: dict[Version, TreeSnapshot] = {EMPTY_VERSION: empty_snapshot()}
        self._latest = EMPTY_VERSION
        self._is_led = False

    @property
    def latest(self) -> TreeSnapshot:
        """The snapshot of the youngest version."""
        return self._snapshots[self._latest]

    def difference(self) -> float:
        """How much the tree differs from the youngest version."""
        return self._tree.difference()

    def change(self, change: Interest | bytes) -> None:
        """Insert or remove a filter; only the optimizer does this. `commit` makes a version of all changes.

        Inserting a filter twice, or removing one that is not in the tree, does nothing.
        """
        if isinstance(change, bytes):
            if change in self._tree:
                self._tree.remove(change)
        elif change.key not in self._tree:
            self._tree.insert(change.key, change.paths)

    def commit(self, version: Version, changes: Sequence[Interest | bytes]) -> TreeSnapshot:
        """Make a version of the tree after these changes, which `change` has made."""
        digest = chained(self.latest.digest, encode_changes(changes))
        return self._add(TreeSnapshot(self._tree, version, digest))

    def apply(
        self, version: Version, base: Version, changes: Sequence[Interest | bytes], digest: bytes
    ) -> TreeSnapshot | None:
        """The version that `base` becomes by changes; None if the base is not there, or is another tree."""
        if version in self._snapshots or self._is_led:
            return self._snapshots.get(version)
        if base == EMPTY_VERSION:
            self.restart()
        if base != self._latest or chained(self.latest.digest, encode_changes(changes)) != digest:
            return None
        for change in changes:
            self.change(change)
        return self.commit(version, changes)

    def load(self, version: Version, data: bytes) -> TreeSnapshot:
        """Add a version that was received as a whole; MalformedTree if the bytes are none."""
        if version in self._snapshots:
            return self._snapshots[version]
        tree, digest = decode_tree(data, self.decay)
        try:
            snapshot = TreeSnapshot(tree, version, digest)
        except TypeError as error:  # values that cannot be compared
            raise MalformedTree(str(error)) from None
        if self._is_led:
            return snapshot
        self._tree = tree
        return self._add(snapshot)

    def restart(self, is_led: bool = False) -> None:
        """Begin again with the empty tree. If an optimizer leads the store, only that one changes the tree."""
        self._tree = RoutingTree(self.decay)
        self._snapshots[EMPTY_VERSION] = empty_snapshot()
        self._latest = EMPTY_VERSION
        self._is_led = is_led

    def _add(self, snapshot: TreeSnapshot) -> TreeSnapshot:
        self._tree.mark_published()
        self._snapshots.pop(EMPTY_VERSION, None)
        self._snapshots[snapshot.version] = snapshot
        self._latest = snapshot.version
        for version in list(self._snapshots)[:-LIVE_VERSIONS]:
            del self._snapshots[version]
        return snapshot
