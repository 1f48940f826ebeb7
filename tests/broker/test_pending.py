"""Changes on their way to the disk: the newest counts, until the store has it."""

from __future__ import annotations

from whimbrel.broker.service.pending import Pending


def test_the_newest_change_counts_until_the_store_has_it() -> None:
    stored: dict[str, str] = {"a": "old"}
    pending = Pending(stored.get)
    assert (pending.newest("a"), pending.newest("b")) == ("old", None)
    pending.note("a", 10, "new")
    assert pending.newest("a") == "new"
    pending.note("a", 20, None)
    pending.folded("a", 10)  # the store has the change before the last one
    assert pending.newest("a") is None and pending.decided() == {"a": None}
    stored.clear()
    pending.folded("a", 20)
    assert pending.decided() == {} and pending.newest("a") is None
