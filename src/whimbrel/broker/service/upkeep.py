"""Upkeep: a thread that merges lists, saves the index, moves the store's stamp, ends expired subscriptions, and
truncates the log.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic, time_ns

from whimbrel.broker.requests.entries import Change, SubscriptionEnd
from whimbrel.broker.requests.errors import Unavailable
from whimbrel.broker.sequencing.publishing import LiveIndex
from whimbrel.broker.sequencing.request_group import Decide, IgnoredResult
from whimbrel.broker.service.disk_space import DiskSpace, is_full
from whimbrel.broker.service.opening import OpenedDirectory
from whimbrel.broker.service.retention import Retention
from whimbrel.broker.service.subscription_registry import Registry

SAVE_CHANGES = 20_000
"""Changes of subscriptions after which the index is saved, if that is at least half of it: then all saves together cost
about as much as the last one. Those that came since are replayed at a start."""
QUIET_SECONDS = 5.0
"""Seconds without a change after which the index is also saved."""
STAMP_SECONDS = 5.0
"""How often the store is told how far it has seen the log, when only events come."""
INDEX_BYTES = 1_000
"""What the saved index takes per subscription, at most, about."""
_ROUND_SECONDS = 0.25

logger = logging.getLogger("whimbrel.broker")


@dataclass(eq=False)
class Upkeep:
    """Keeps a broker's derived state in order. A failure stops the broker: `_fail` is called with it."""

    _opened: OpenedDirectory
    _live: LiveIndex
    _registry: Registry
    _retention: Retention
    _space: DiskSpace
    _submit: Callable[[Decide], None]
    _fail: Callable[[Exception], None]

    def __post_init__(self) -> None:
        self.end = self._opened.writer.end
        """The entries below are folded; set by the broker."""
        self.changes = 0
        """Changes of subscriptions since the start; counted by the broker."""
        self._saved_changes = 0  # those of them that the saved index has
        self.every_round: list[Callable[[], None]] = []
        """What else is looked at in every round."""
        saved = self._opened.index.facts.get("offset")
        self._index_stamp = saved if isinstance(saved, int) else 0  # the saved index has seen the changes below
        self._is_saved = False  # since the start
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="whimbrel-upkeep", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def finish(self) -> None:
        """Write everything, so that the next start has nothing to read from the log. All entries must be folded."""
        self._stamp()
        with _unless_full():
            self._opened.lists.flush()
            self._opened.ids.close()
            if self._unsaved:
                self._save_index()

    @property
    def _unsaved(self) -> int:
        """Changes since the index was saved."""
        return self.changes - self._saved_changes

    def _run(self) -> None:
        stamped = quiet = monotonic()
        changes = 0
        while not self._stopping.wait(_ROUND_SECONDS):
            try:
                self._write_lists()
                if monotonic() > stamped + STAMP_SECONDS and self._opened.store.stamp < self.end:
                    self._stamp()
                    stamped = monotonic()
                quiet = quiet if self.changes == changes else monotonic()
                changes = self.changes
                is_quiet = self._unsaved > 0 and monotonic() > quiet + QUIET_SECONDS
                if is_quiet or self._unsaved >= max(SAVE_CHANGES, len(self._live.index) // 2):
                    self._save_index()
                self._expire()
                for look in self.every_round:
                    look()
                end = self.end
                self._space.reusable = self._opened.reader.sizes[1]
                with contextlib.suppress(Unavailable), _unless_full():
                    self._retention.step(end, end if self._is_saved and not self._unsaved else self._index_stamp)
            except Exception as error:
                self._fail(error)
                return

    def _stamp(self) -> None:
        """Tell the store how far it has seen the log, and how far events are matched."""
        end = self.end  # read first: what waits later lies above
        self._opened.store.apply([], end)
        self._opened.store.matching.move_watermark(self._opened.watermark.at(end))

    def _write_lists(self) -> None:
        """Merge lists and seal ids, if there is space for it."""
        if self._space.has(0):
            with _unless_full():
                if self._opened.lists.needs_merge():
                    self._opened.lists.merge()
                self._opened.ids.seal(self.end)

    def _save_index(self) -> None:
        """Save the index with an offset that it has surely applied; what came later is applied again at a start.

        If the disk has no space for it, the former one stays, and it is tried again.
        """
        if not self._space.has(INDEX_BYTES * len(self._live.index)):
            return
        offset, changes = self.end, self.changes
        facts = {"log": self._opened.reader.id, "offset": offset}
        try:
            self._live.index.save(self._opened.directory / "index", facts)
        except OSError as error:
            if not is_full(error):
                raise
            return
        self._index_stamp, self._saved_changes, self._is_saved = offset, changes, True

    def _expire(self) -> None:
        now = time_ns() // 1000
        for id in self._opened.store.expired(now, 1000):

            def decide(offset: int, id: str = id) -> tuple[list[Change], object]:
                held = self._registry.newest(id)
                if held is None or held.expires is None or held.expires > now:  # ended or replaced meanwhile
                    return [], None
                self._registry.end(offset, held)
                return [SubscriptionEnd(id, "expired")], None

            with contextlib.suppress(Unavailable):  # it is tried again
                self._submit(Decide(decide, IgnoredResult()))


@contextlib.contextmanager
def _unless_full() -> Iterator[None]:
    """Go on if the disk is full while derived files are written: they can be made anew, and it is tried again."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        logger.warning("the disk is full: %s", error)
