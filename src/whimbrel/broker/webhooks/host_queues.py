"""Which channel is served next: hosts take turns, and each has a share, a number of deliveries at one time.

A host that answers in time gets more, up to PER_HOST; one that is slow or fails gets half. So a bad host soon holds one
delivery at a time, and others wait for it no longer than for a good one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

PER_HOST = 32
"""Deliveries to one host at one time, at most."""
REMEMBERED = 10_000
"""Hosts without work whose share is remembered, because it is not full."""


@dataclass(slots=True, eq=False)
class _Host(Generic[T]):
    key: Hashable
    share: int = PER_HOST
    running: int = 0
    offered: bool = False
    waiting: deque[T] = field(default_factory=deque)


class HostQueues(Generic[T]):
    """What waits, by host. Used in one event loop."""

    def __init__(self) -> None:
        self._hosts: dict[Hashable, _Host[T]] = {}
        self._ready: deque[_Host[T]] = deque()

    def push(self, key: Hashable, one: T) -> None:
        """Queue something for a host."""
        host = self._hosts.get(key)
        if host is None:
            host = self._hosts[key] = _Host(key)
        host.waiting.append(one)
        self._offer(host)

    def pop(self) -> tuple[Hashable, T] | None:
        """Take the next item, of the host whose turn it is; `done` must follow. None if nothing may run."""
        while self._ready:
            host = self._ready.popleft()
            host.offered = False
            if host.waiting and host.running < host.share:
                host.running += 1
                one = host.waiting.popleft()
                self._offer(host)
                return host.key, one
        return None

    def done(self, key: Hashable, well: bool | None) -> None:
        """Note the end of a delivery, and whether it went well; None if the host was not asked."""
        host = self._hosts[key]
        host.running -= 1
        if well is not None:
            host.share = min(PER_HOST, host.share + 1) if well else max(1, host.share // 2)
        self._offer(host)
        if not host.running and not host.waiting and (host.share == PER_HOST or len(self._hosts) > REMEMBERED):
            del self._hosts[key]

    def _offer(self, host: _Host[T]) -> None:
        if host.waiting and host.running < host.share and not host.offered:
            host.offered = True
            self._ready.append(host)
