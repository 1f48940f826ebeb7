"""One version of the tree as one router sees it: which interfaces want each of its filters, and the younger filters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from whimbrel.overlay.covering.cover_table import CoverTable
from whimbrel.overlay.tree.prefix import Prefix
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot


class TreeView:
    """A snapshot with masks of interfaces. `interests` and `table` are the router's own, and always current.

    Filters that the snapshot has are found by their keys. Others are placed in the tree when an event first needs that.
    """

    def __init__(self, snapshot: TreeSnapshot, interests: Mapping[bytes, int], table: CoverTable) -> None:
        self.snapshot = snapshot
        self._interests = interests
        self._table = table
        self._masks = np.zeros(len(snapshot.keys), np.int64)
        self._unplaced: dict[bytes, None] = {}
        self._nodes: dict[bytes, list[int]] = {}
        self._younger: dict[int, dict[bytes, None]] = {}
        for key, mask in interests.items():
            self.update(key, mask)

    def update(self, key: bytes, mask: int) -> None:
        """Set the interfaces, as a mask, that want a filter."""
        number = self.snapshot.number_of.get(key)
        if number is not None:
            self._masks[number] = mask
        elif mask:
            if key not in self._nodes:
                self._unplaced[key] = None
        else:
            self._unplaced.pop(key, None)
            for node in self._nodes.pop(key, ()):
                del self._younger[node][key]
                if not self._younger[node]:
                    del self._younger[node]

    def check(self, prefix: Prefix) -> None:
        """Raise MalformedPrefix if a prefix of this version cannot be read as far as it is needed."""
        self.snapshot.check(prefix)
        if self._unplaced or self._younger:
            _ = prefix.others

    def forward(self, prefix: Prefix, wanted: int) -> tuple[int, int]:
        """The interfaces that want an event, as bits, and how many nodes and filters were read.

        It stops once all `wanted` bits are found.
        """
        found, read = self.snapshot.forward(prefix, self._masks, wanted) if wanted else (0, 0)
        if found & wanted != wanted:
            for key in self.younger(prefix):
                found |= self._interests[key]
                read += 1
        return found, read

    def forward_coded(self, data: bytes, wanted: int) -> tuple[int, int] | None:
        """Forward by a prefix that is still bytes, as `forward` does; None if younger filters need it decoded."""
        if self._unplaced or self._younger:
            return None
        return self.snapshot.forward_coded(data, self._masks, wanted)

    def filters(self, prefix: Prefix, bit: int) -> tuple[list[bytes], int]:
        """The filters of an interface that an event may match, and the nodes and filters read."""
        keys, read = self.snapshot.filters(prefix, self._masks, bit)
        younger = [key for key in self.younger(prefix) if self._interests[key] & bit]
        return keys + younger, read + len(younger)

    def younger(self, prefix: Prefix) -> Iterator[bytes]:
        """The filters that the snapshot does not have, at the nodes of a prefix; each once."""
        self._place()
        if not self._younger:
            return
        covered = set(prefix.nodes.tolist()) | {0}
        found: dict[bytes, None] = {}
        for node, keys in self._younger.items():
            if node in covered or self._is_below(node, prefix.limit, covered):
                found.update(keys)
        yield from found

    def _is_below(self, node: int, limit: int | None, covered: set[int]) -> bool:
        """Whether a node is below one at which a prefix was cut off."""
        if limit is None or self.snapshot.forwarding.depth[node] <= limit:
            return False
        while self.snapshot.forwarding.depth[node] > limit:
            node = int(self.snapshot.parent[node])
        return node in covered

    def _place(self) -> None:
        for key in self._unplaced:
            nodes = self.snapshot.place(self._table[key].paths)
            self._nodes[key] = nodes
            for node in nodes:
                self._younger.setdefault(node, {})[key] = None
        self._unplaced.clear()
