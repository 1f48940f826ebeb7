"""Where a log is: in a directory, or at a broker. The client of brokers is imported only for the second.

A query on a log starts several Python processes, and each imports this.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whimbrel.log import LogReader

if TYPE_CHECKING:
    from whimbrel.pipeline.connectors.broker_link import BrokerLink


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Where a broker is, and how to be let in; it can be sent to workers.

    `authority` is a file of certificates to trust. With `pinned` it is that of the broker itself, whatever name the
    address has.
    """

    url: str
    token: str | None = None
    authority: str | None = None
    pinned: bool = False

    def connect(self) -> BrokerLink:
        """Open a connection to the broker."""
        from whimbrel.client.trust import authority_context
        from whimbrel.pipeline.connectors.broker_link import BrokerLink

        context = None if self.authority is None else authority_context(self.authority)
        if context is not None and self.pinned:
            context.check_hostname = False
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        return BrokerLink(self.url, self.token, context)


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The directory of a log, or the address of the broker that owns it; it can be sent to workers."""

    at: str | BrokerAddress

    def open(self) -> LogReader | BrokerLink:
        """Open the log for reading."""
        return LogReader(self.at) if isinstance(self.at, str) else self.at.connect()

    def __str__(self) -> str:
        return self.at if isinstance(self.at, str) else self.at.url
