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
    """Turns rows of the log, in order, into events. It must begin at a `boundary` of the log.

    `resume` is the offset at which a reader may begin again to see all that follows the last row.
    """

    def __init__(self, log: LogReader, start: int) -> None:
        self._log = log
        self.resume = start
        self._tenant, self._tenant_left = "", 0
        self._forwarded: ForwardedEvents | None = None
        self._place = 0

    def events(self, rows: Iterable[Row]) -> Iterator[LoggedEvent]:
        """The events among some rows, which must follow the rows of the last call."""
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
