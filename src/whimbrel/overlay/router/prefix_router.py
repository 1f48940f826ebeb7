"""The router that forwards by prefix: an event is matched once, where it is published; the others read its prefix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from whimbrel.model.errors import LimitExceeded
from whimbrel.model.event import Event
from whimbrel.overlay.covering.cover_table import CoverTable
from whimbrel.overlay.router.optimizer import OptimizerSettings, TreeOptimizer
from whimbrel.overlay.router.router import LOCAL, Route, Router
from whimbrel.overlay.router.router_messages import (
    Announce,
    Effects,
    Forwarded,
    Message,
    TreeRequest,
    TreeUpdate,
    WholeTree,
)
from whimbrel.overlay.router.view import TreeView
from whimbrel.overlay.tree.prefix import EMPTY_VERSION, LARGEST_NUMBER, MalformedPrefix, Prefix, Version
from whimbrel.overlay.tree.tree_bytes import MalformedTree, encode_changes, encode_tree
from whimbrel.overlay.tree.tree_snapshot import TreeSnapshot
from whimbrel.overlay.tree.tree_store import LIVE_VERSIONS, TreeStore

UNANSWERED_UPDATES = 64
"""Updates that wait for a tree that was asked for before it is asked for again: it may be too large to be sent."""


@dataclass(frozen=True, slots=True)
class PrefixSettings:
    """How prefixes are made. A prefix ends at `depth` of the tree; with None it goes all the way down.

    `decay` says how much less a change counts one level deeper, and `optimizer` when versions of the tree are made.
    With `every_hop` prefixes are neither sent nor read: every router matches every event, for comparison.
    """

    depth: int | None = None
    decay: float = 0.5
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    every_hop: bool = False


@dataclass(slots=True)
class _WantedTree:
    """The youngest version that a router has heard of and lacks, whom it asked, and the updates that came since."""

    neighbour: str
    version: Version
    updates: int = 0


class PrefixRouter(Router):
    """A router with the last versions of the tree. One of all is the optimizer (`optimize`).

    An event whose prefix cannot be used, because its version is unknown or gone or because it is malformed, is matched
    by its content again; it is never dropped.
    """

    def __init__(
        self,
        name: str,
        settings: PrefixSettings | None = None,
        table: CoverTable | None = None,
        trees: TreeStore | None = None,
    ) -> None:
        super().__init__(name, table)
        self._settings = settings or PrefixSettings()
        self._owns_trees = trees is None
        self._trees = trees or TreeStore(self._settings.decay)
        self._epoch = 0
        self._leader = ""
        self._is_new = False
        self._views: dict[Version, TreeView] = {}
        self._asked: dict[str, None] = {}  # neighbours that wait for a tree from here
        self._wanted_tree: _WantedTree | None = None
        self.optimizer: TreeOptimizer | None = None
        self._adopt(self._trees.latest)

    @property
    def depth(self) -> int | None:
        """The depth at which its prefixes are cut off; None if they are not."""
        return self._settings.depth

    @property
    def leader(self) -> str:
        """The name of the optimizer; "" if none is known."""
        return self._leader

    @property
    def version(self) -> Version:
        """The youngest version of the tree that it has."""
        return next(reversed(self._views))

    def view(self, version: Version) -> TreeView | None:
        """Its view of a version of the tree; None if it does not have that version."""
        return self._views.get(version)

    def optimize(self, now: float) -> Effects:
        """Become the optimizer, in a new epoch. The filters that are here come first."""
        self._epoch = min(self._epoch + 1, LARGEST_NUMBER)  # a peer may have announced any epoch
        self._leader, self._toward, self._is_new = self.name, None, True
        self.optimizer = TreeOptimizer(self._epoch, self._trees, self._settings.optimizer)
        for key in sorted(self.interests):
            self.optimizer.change(self.table[key])
        effects = Effects(
            [(neighbour, Announce(self._epoch, self.name, EMPTY_VERSION)) for neighbour in self.neighbours]
        )
        return self._finish(effects, now)

    def restart(self, now: float) -> Effects:
        """Start again with what is durable: subscriptions, filters, what was sent and seen.

        Ask for versions of the tree.
        """
        self._views.clear()
        self._wanted_tree = None
        if self._owns_trees:
            self._trees = TreeStore(self._settings.decay)
        self._adopt(TreeStore(self._settings.decay).latest)
        if self.optimizer is not None:
            return self.optimize(now)
        effects = Effects()
        if self._toward is not None:
            self._ask(self._toward, EMPTY_VERSION, effects)
        return effects

    def link(self, neighbour: str) -> Effects:
        """Add a neighbour, and tell it which filters are wanted here and who the optimizer is."""
        effects = super().link(neighbour)
        if self._epoch and neighbour != self._toward:
            effects.sent.append((neighbour, Announce(self._epoch, self._leader, self.version)))
        return effects

    def unlink(self, neighbour: str) -> Effects:
        """Remove a neighbour for good, with all filters that it wanted. It gets no tree that it has asked for."""
        self._asked.pop(neighbour, None)
        return super().unlink(neighbour)

    def due(self, now: float) -> float | None:
        """The time at which to call `tick`; None unless this is the optimizer and changes wait."""
        return None if self.optimizer is None else self.optimizer.due(now)

    def tick(self, now: float) -> Effects:
        """Publish a version of the tree if one is due at `now`."""
        return self._finish(Effects(), now)

    def onward(self, prefix: bytes | None, event: Callable[[], Event], arrival: int) -> tuple[int, bytes]:
        """The neighbours that want an event, as bits, but for `arrival`, and the prefix with which it goes on.

        Without a prefix, or with one that cannot be used, the event is matched. Local subscriptions are left out.
        """
        came = None if self._settings.every_hop else prefix
        if came is not None:
            quick = self._views[self.version].forward_coded(came, self._wanted(arrival))
            if quick is not None:
                self._count_forward(quick[1])
                return quick[0] & ~arrival & ~LOCAL, came
        read, coded = self._prefix_of(came, event)
        mask, visited = self._views[read.version].forward(read, self._wanted(arrival))
        self._count_forward(visited)
        return mask & ~arrival & ~LOCAL, coded

    def match(self, event: Event) -> Prefix:
        """The prefix of an event on the youngest version."""
        found = self._views[self.version].snapshot.match(event, self._settings.depth)
        self.counters.visited += found.visited
        self.counters.tested += found.compared
        return found.prefix

    def _count_forward(self, read: int) -> None:
        self.counters.visited += read
        self.counters.forward_visited += read

    def _route(self, message: Forwarded, arrival: int) -> Route:
        if arrival and not self._counts.get(LOCAL):
            quick = self._views[self.version].forward_coded(message.prefix, self._wanted(arrival))
            if quick is not None:
                self._count_forward(quick[1])
                return Route(quick[0], [], message)
        prefix, coded = self._prefix_of(message.prefix if arrival else None, lambda: message.event)
        if coded is not message.prefix:
            message = replace(message, prefix=coded)
        view = self._views[prefix.version]
        mask, read = view.forward(prefix, self._wanted(arrival))
        candidates: list[bytes] = []
        if self._counts.get(LOCAL):
            candidates, more = view.filters(prefix, LOCAL)
            read += more
        self._count_forward(read)
        return Route(mask, candidates, message)

    def _wanted(self, arrival: int) -> int:
        """The neighbours that want anything, as bits, but for `arrival`."""
        return sum(bit for bit in self._bits.values() if bit != arrival and self._counts.get(bit))

    def _prefix_of(self, coded: bytes | None, event: Callable[[], Event]) -> tuple[Prefix, bytes]:
        """The prefix of an event, and its bytes: as it came, or by a match if none came or it cannot be used."""
        read = None if coded is None else self._read_prefix(coded)
        if coded is not None and read is not None:
            return read, coded
        if coded is None:
            self.counters.content_matches += 1
        else:
            self.counters.fallbacks += 1
        made = self.match(event())
        coded = b"" if self._settings.every_hop else made.encode()
        self.counters.prefix_bytes.append(len(coded))
        self.counters.prefix_nodes.append(len(made))
        return made, coded

    def _read_prefix(self, data: bytes) -> Prefix | None:
        """The prefix that came with an event, or None if it cannot be used."""
        try:
            prefix = Prefix.decode(data)
            view = self._views.get(prefix.version)
            if view is None or view.snapshot.check_bytes != prefix.check:
                return None
            view.check(prefix)
        except (MalformedPrefix, LimitExceeded):
            self.counters.malformed += 1
            return None
        return prefix

    def _changed(self, key: bytes, before: int, after: int) -> None:
        for view in self._views.values():
            view.update(key, after)
        if self.optimizer is not None and not (before and after):
            self.optimizer.change(key if before else self.table[key])

    def _finish(self, effects: Effects, now: float) -> Effects:
        """Publish a version of the tree if one is due."""
        if self.optimizer is not None:
            due = self.optimizer.due(now)
            if due is not None and due <= now:
                update = self.optimizer.publish()
                self.counters.tree_updates += 1
                self._adopt(self._trees.latest)
                self._spread(update, None, effects)
        return effects

    def _handle_other(self, neighbour: str, message: Message, now: float) -> Effects:
        effects = Effects()
        match message:
            case Announce():
                return self._follow(neighbour, message, now)
            case TreeUpdate():
                self._update(neighbour, message, effects)
            case TreeRequest(version):
                if self.version >= max(version, (1, 0)):
                    self._answer(neighbour, effects)
                else:
                    self._asked[neighbour] = None
            case WholeTree(version, data):
                self._take_whole(neighbour, version, data, effects)
            case _:
                return super()._handle_other(neighbour, message, now)
        return effects

    def _follow(self, neighbour: str, announced: Announce, now: float) -> Effects:
        """The optimizer of an epoch is behind a neighbour, which gets all filters from now on.

        Of two optimizers with the same epoch the one with the smaller name begins another. So does one that has just
        started and hears of a later epoch, which was its own or that of an optimizer before it.
        """
        effects = Effects()
        epoch, optimizer = announced.epoch, announced.optimizer
        if epoch < self._epoch:
            return effects
        if epoch == self._epoch and optimizer == self._leader:
            if self._toward is None and self.optimizer is None:  # the link to it ended, and this is another way to it
                self._turn_to(neighbour, effects)
            if neighbour == self._toward and announced.version > self.version:  # it came while the link was down
                self._ask(neighbour, announced.version, effects)
            return effects
        is_mine = optimizer == self.name or (epoch == self._epoch and self.name < optimizer) or self._is_new
        if self.optimizer is not None and is_mine:
            self._epoch = epoch  # of another optimizer, or its own before it was restarted
            effects = self.optimize(now)
            self._is_new = False
            return effects
        if epoch > self._epoch:
            self._epoch, self._leader = epoch, optimizer
            if self.optimizer is not None:  # another one takes over
                self.optimizer = None
                self._trees.restart()
            self._turn_to(neighbour, effects)
            if announced.version > self.version:
                self._ask(neighbour, announced.version, effects)
        effects.sent += [(other, announced) for other in self.neighbours if other != neighbour]
        return effects

    def _turn_to(self, neighbour: str, effects: Effects) -> None:
        """Note that the optimizer is behind a neighbour, and send it the filters that it was not sent."""
        self._toward = neighbour
        for key in self.interests:
            self._offer(key, neighbour, effects)

    def _update(self, neighbour: str, update: TreeUpdate, effects: Effects) -> None:
        """Make the next version, or ask for it as a whole; those behind may lack it even if it is here."""
        if update.version > self.version:
            snapshot = self._trees.apply(update.version, update.base, update.changes, update.digest)
            if snapshot is None:
                self._want(neighbour, update.version, effects)
            else:
                self._adopt(snapshot, effects)
        self._spread(update, neighbour, effects)

    def _want(self, neighbour: str, version: Version, effects: Effects) -> None:
        """Ask for the tree that an update needs, unless it is on its way: then one tree stands for all updates."""
        wanted = self._wanted_tree
        if wanted is None or wanted.neighbour != neighbour or wanted.updates >= UNANSWERED_UPDATES:
            self._ask(neighbour, version, effects)
        else:
            wanted.version, wanted.updates = max(version, wanted.version), wanted.updates + 1

    def _ask(self, neighbour: str, version: Version, effects: Effects) -> None:
        """Ask a neighbour for a version as a whole."""
        self._wanted_tree = _WantedTree(neighbour, version)
        effects.sent.append((neighbour, TreeRequest(version)))

    def _take_whole(self, neighbour: str, version: Version, data: bytes, effects: Effects) -> None:
        """Use a tree that came as a whole. If it is older than an update that came meanwhile, ask again."""
        wanted = self._wanted_tree
        if wanted is not None and wanted.neighbour == neighbour:
            self._wanted_tree = None
        if version <= self.version:
            return
        try:
            self._adopt(self._trees.load(version, data), effects)
        except (MalformedTree, LimitExceeded):
            self.counters.malformed += 1
        else:
            if wanted is not None and self._wanted_tree is None and version < wanted.version:
                self._ask(neighbour, wanted.version, effects)

    def _spread(self, update: TreeUpdate, arrival: str | None, effects: Effects) -> None:
        """Send an update to all neighbours except the one that it came from."""
        others = [neighbour for neighbour in self.neighbours if neighbour != arrival]
        if others:
            self.counters.tree_update_bytes += len(others) * len(encode_changes(update.changes))
        effects.sent += [(neighbour, update) for neighbour in others]

    def _answer(self, neighbour: str, effects: Effects) -> None:
        """Send the youngest version as a whole, unless it is the empty one, which all have."""
        if self.version == EMPTY_VERSION:
            return
        data = encode_tree(self._views[self.version].snapshot)
        self.counters.tree_update_bytes += len(data)
        effects.sent.append((neighbour, WholeTree(self.version, data)))

    def _adopt(self, snapshot: TreeSnapshot, effects: Effects | None = None) -> None:
        """Use a version for events that are published here, and for events whose prefix has that version."""
        self._views[snapshot.version] = TreeView(snapshot, self.interests, self.table)
        for version in list(self._views)[:-LIVE_VERSIONS]:
            del self._views[version]
        if effects is not None:
            for neighbour in self._asked:
                self._answer(neighbour, effects)
            self._asked.clear()
