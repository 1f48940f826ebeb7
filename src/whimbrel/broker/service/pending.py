"""Changes that are decided and not in the store yet: what the sequencer must know before they are on disk."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Pending(Generic[T]):
    """The newest of something by name: as it was decided last, or as the store has it (`stored`).

    The sequencer notes changes with the offsets of their entries. The writer of the log forgets them when the store has
    applied them, so that only those are held that are on their way to the disk.
    """

    def __init__(self, stored: Callable[[str], T]) -> None:
        self._stored = stored
        self._decided: dict[str, tuple[int, T]] = {}
        self._changing = threading.Lock()

    def newest(self, name: str) -> T:
        """What holds now."""
        decided = self._decided.get(name)
        return self._stored(name) if decided is None else decided[1]

    def note(self, name: str, offset: int, value: T) -> None:
        """Note a change whose entry gets an offset."""
        with self._changing:
            self._decided[name] = offset, value

    def folded(self, name: str, offset: int) -> None:
        """Forget what the store has now: the change with the entry at an offset, and those before it."""
        with self._changing:
            if name in self._decided and self._decided[name][0] <= offset:
                del self._decided[name]

    def decided(self) -> dict[str, T]:
        """All changes that are not in the store yet."""
        with self._changing:
            return {name: value for name, (_, value) in self._decided.items()}
