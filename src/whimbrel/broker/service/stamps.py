"""How far each fold has applied the log, on disk: the log is truncated only below all of them."""

from __future__ import annotations

from collections.abc import Callable


class FoldStamps:
    """The stamps of all folds over the log. A fold joins once, before the broker starts; any thread may ask.

    A stamp is the offset below which a fold needs no entry of the log again, even after a loss of power. It never
    falls.
    """

    def __init__(self) -> None:
        self._stamps: dict[str, Callable[[], int]] = {}

    def join(self, name: str, stamp: Callable[[], int]) -> None:
        """A fold says how far it is. ValueError if the name is taken."""
        if name in self._stamps:
            raise ValueError(f"Expected a fold of another name than {name!r}, which has joined")
        self._stamps[name] = stamp

    def offsets(self) -> dict[str, int]:
        """The stamp of each fold."""
        return {name: stamp() for name, stamp in self._stamps.items()}

    def lowest(self) -> int | None:
        """The lowest stamp; None if no fold has joined."""
        return min(self.offsets().values(), default=None)
