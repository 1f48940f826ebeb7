"""Reads entries of the log as events to forward: their tenant, where they were published, and their prefix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from whimbrel.broker.requests import entries
from whimbrel.broker.requests.entries import FORWARDED_EVENTS, TENANT_EVENTS, ForwardedEvents, TenantEvents
from whimbrel.log import EVENT, LogReader
from whimbrel.log.reader import Row

_BEFORE = (TENANT_EVENTS, FORWARDED_EVENTS)
"""The kinds of entries that say something of the events after them."""


class LoggedEvent(NamedTuple):
    """An event of the log. `peer` is where it came from, `prefix` what it came with; "" and None if it is our own."""

    offset: int
    raw: bytes
    tenant: str
    origin: str
    origin_offset: int
    peer: str = ""
    prefix: bytes | None = None


class LogFeed:
    """Turns rows of the log, in order, into events. It must begin at a `boundary`.

    `resume` is the offset at which a reader may begin again to see all that follows the last row.
    """

    def __init__(self, log: LogReader, start: int) -> None:
        self._log = log
        self.resume = start
        self._tenant, self._tenant_left = "", 0
        self._forwarded: ForwardedEvents | None = None
        self._place = 0

    def events(self, rows: Iterable[Row]) -> Iterator[LoggedEvent]:
        """The events among some rows, which follow those of the last call."""
        for offset, _, kind, payload, _ in rows:
            if kind == EVENT:
                tenant = self._tenant if self._tenant_left else ""
                self._tenant_left = max(0, self._tenant_left - 1)
                forwarded = self._forwarded
                if forwarded is None:
                    yield LoggedEvent(offset, payload, tenant, self._log.id_at(offset), offset)
                else:
                    at = self._place
                    self._place += 1
                    if self._place == len(forwarded.offsets):
                        self._forwarded = None
                    yield LoggedEvent(
                        offset, payload, tenant, forwarded.origin, forwarded.offsets[at], forwarded.peer,
                        forwarded.prefixes[at],
                    )  # fmt: skip
            elif kind in _BEFORE:
                entry = entries.decode(kind, payload)
                if isinstance(entry, TenantEvents):
                    self._tenant, self._tenant_left = entry.tenant, entry.events
                elif isinstance(entry, ForwardedEvents):
                    self._forwarded, self._place = entry, 0
                continue
            if not self._tenant_left and self._forwarded is None:
                self.resume = offset + 1


def boundary(log: LogReader, offset: int) -> int:
    """The largest offset, up to this one, at which a feed may begin: never between an entry and its events."""
    floor, end = log.bounds
    at = min(max(offset, floor), end)
    if at in (floor, end):
        return at
    before = at
    while before > floor:
        start = max(floor, before - 256)
        for place, _, kind, payload, _ in reversed(list(log.rows(start, before))):
            if kind == EVENT:
                continue
            if kind not in _BEFORE:
                return at
            entry = entries.decode(kind, payload)
            assert isinstance(entry, TenantEvents | ForwardedEvents)
            count = entry.events if isinstance(entry, TenantEvents) else len(entry.offsets)
            if place + count < at:
                return at
            first = log.pick([place - 1])[0] if place > floor else None
            return place - 1 if first is not None and first[2] == FORWARDED_EVENTS else place
        before = start
    return at
