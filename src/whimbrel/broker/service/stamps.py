"""How far each fold has applied the log, on disk: the log is truncated only below all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

LEASE_SECONDS = 60.0
"""How long a lease holds without a move: a reader that pauses longer may find the log truncated."""


class Lease:
    """Holds the log from an offset on, for somebody who reads it from the floor to its end."""

    def __init__(self, offset: int) -> None:
        self._offset = offset
        self._until = monotonic() + LEASE_SECONDS

    @property
    def offset(self) -> int | None:
        """The offset that is held; None if the lease is over."""
        return self._offset if monotonic() < self._until else None

    def move(self, offset: int) -> None:
        """Release the entries below an offset: they were read."""
        self._offset = offset
        self.renew()

    def renew(self) -> None:
        """Hold the log for another while."""
        self._until = monotonic() + LEASE_SECONDS

    def end(self) -> None:
        """Release the log: nothing is held any more."""
        self._until = 0.0


class FoldStamps:
    """The stamps of all folds over the log. A fold joins once, before the broker starts; any thread may ask.

    A stamp is the offset below which a fold needs no entry of the log again, even after a loss of power. It never
    falls.
    """

    def __init__(self) -> None:
        self._stamps: dict[str, Callable[[], int]] = {}
        self._leases: tuple[Lease, ...] = ()
        self._leasing = threading.Lock()  # backups begin in several threads

    def join(self, name: str, stamp: Callable[[], int]) -> None:
        """Add a fold by the function that gives its stamp. ValueError if the name is taken."""
        if name in self._stamps:
            raise ValueError(f"Expected a fold of another name than {name!r}, which has joined")
        self._stamps[name] = stamp

    def offsets(self) -> dict[str, int]:
        """The stamp of each fold."""
        return {name: stamp() for name, stamp in self._stamps.items()}

    def lease(self, offset: int) -> Lease:
        """Hold the log from an offset on, for a while."""
        made = Lease(offset)
        with self._leasing:
            self._leases = (*(one for one in self._leases if one.offset is not None), made)
        return made

    def lowest(self) -> int:
        """The lowest stamp or lease; 0 if no fold has joined."""
        held = [one.offset for one in self._leases]
        return min([*self.offsets().values(), *(offset for offset in held if offset is not None)], default=0)
