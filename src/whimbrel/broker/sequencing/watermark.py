"""How far events are matched, where another engine matches them after they got their offsets."""

from __future__ import annotations

from typing import NamedTuple


class WaitingRange(NamedTuple):
    """Events of first <= offset < until wait for their match lists; none if the two are equal."""

    first: int
    until: int


class Watermark:
    """The range of the log that waits. Only the sequencer moves it; any thread reads `waiting`.

    Every event below `waiting.first` is matched. Entries in the range that are no events do not matter.
    """

    def __init__(self, waiting: WaitingRange) -> None:
        self.waiting = waiting

    def append(self, first: int, until: int) -> None:
        """Add new events of first <= offset < until, which wait for their match lists."""
        held = self.waiting
        self.waiting = WaitingRange(first if held.first == held.until else held.first, until)

    def take(self, until: int) -> None:
        """Note that every event below `until` is matched."""
        self.waiting = WaitingRange(until, max(until, self.waiting.until))

    def at(self, end: int, floor: int = 0) -> int:
        """The watermark of a log with these bounds: where something waits, or the end.

        What was deleted below the floor waits no more.
        """
        first, until = self.waiting
        return min(max(first, floor), end) if first < until else end
