"""Where a log is: a directory of this host, or a broker."""

from __future__ import annotations

from dataclasses import dataclass

from whimbrel.log import LogReader
from whimbrel.pipeline.connectors.broker_link import BrokerAddress, BrokerLink


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The directory of a log, or the address of the broker that owns it; it can be sent to workers."""

    path: str | None = None
    broker: BrokerAddress | None = None

    def open(self) -> LogReader | BrokerLink:
        """Open the log for reading."""
        if self.broker is not None:
            return self.broker.connect()
        assert self.path is not None
        return LogReader(self.path)

    def __str__(self) -> str:
        return self.path if self.broker is None else self.broker.url  # type: ignore[return-value]
