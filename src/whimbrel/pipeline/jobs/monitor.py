"""What a job reports: to a monitor while it runs, and in a summary at the end. The command line prints both."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """One micro-batch of a stream that has ended. `waiting` is how many events or files wait, and which; or None."""

    number: int
    events: int
    pairs: int
    dead_letters: int
    milliseconds: int
    waiting: tuple[int, str] | None

    def to_dict(self) -> dict[str, object]:
        """The micro-batch as JSON-ready data, without what is zero or not known."""
        said: dict[str, object] = {"batch": self.number, "events": self.events, "pairs": self.pairs}
        if self.dead_letters:
            said["dead_letters"] = self.dead_letters
        said["milliseconds"] = self.milliseconds
        if self.waiting is not None:
            said[f"{self.waiting[1]}_waiting"] = self.waiting[0]
        return said


@dataclass(slots=True)
class RunSummary:
    """The counts and times of a run. `batches` is None for a run that is no stream."""

    subscriptions: int = 0
    rejected: int = 0
    version: int = 0
    events: int = 0
    dead_letters: int = 0
    pairs: int = 0
    batches: int | None = None
    compile_seconds: float = 0.0
    match_seconds: float = 0.0
    output: str = ""

    def add(self, batch: MicroBatch) -> None:
        """Count a micro-batch."""
        self.batches = (self.batches or 0) + 1
        self.events += batch.events
        self.dead_letters += batch.dead_letters
        self.pairs += batch.pairs


class JobMonitor(Protocol):
    """The role that receives the progress of a job."""

    def stages(self, label: str) -> AbstractContextManager[None]:
        """Entered while Spark works on what the label says."""

    def rejected(self, path: str, rejects: DataFrame, count: int) -> None:
        """Called with refused subscriptions of a path: a table of id, text and message, and the number of its rows."""

    def following(self) -> AbstractContextManager[threading.Event]:
        """Entered while the micro-batches of a stream run. The stream stops when the event is set."""

    def micro_batch(self, batch: MicroBatch, summary: RunSummary) -> None:
        """Called when a micro-batch has ended; the summary includes it."""
