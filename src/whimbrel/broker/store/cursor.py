"""Cursors: places behind a message, as texts and in their order."""

from __future__ import annotations

from typing import NamedTuple


class Cursor(NamedTuple):
    """A place behind a message: `part` of the entry at `offset`. Written `offset` or `offset.n`.

    An event is one message, part 0. A bare offset stands behind all messages of the entry.
    """

    offset: int
    part: int | None = None

    def __str__(self) -> str:
        return str(self.offset) if self.part is None else f"{self.offset}.{self.part}"

    @property
    def place(self) -> tuple[int, float]:
        """What cursors are ordered by: a bare offset stands behind all messages of its entry."""
        return self.offset, float("inf") if self.part is None else self.part

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """ValueError unless the text is a cursor. `-1` stands before the first entry."""
        offset, dot, part = text.partition(".")
        if not (offset == "-1" or (offset.isascii() and offset.isdigit() and len(offset) < 19)):
            raise ValueError(f"Expected a cursor such as 17 or 17.0, but got {text[:40]!r}")
        if dot and not (part.isascii() and part.isdigit() and len(part) < 10):
            raise ValueError(f"Expected a cursor such as 17 or 17.0, but got {text[:40]!r}")
        return cls(int(offset), int(part) if dot else None)
