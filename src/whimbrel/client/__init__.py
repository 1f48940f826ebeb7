"""A client of the broker: `AsyncClient`, and `Client` with the same calls for programs without an event loop.

asynchronous, synchronous      the two clients
blocking                       makes the calls of the second one from those of the first
wire                           requests and answers, as pure functions
following                      streams of Server-Sent Events over many connections
keyed                          calls about publications and subject spaces
publisher, threaded_publisher  publish event by event, in batches underneath
trust                          which certificates a client trusts
"""

from importlib.util import find_spec

from whimbrel.model.errors import MissingExtra

if find_spec("httpx") is None:
    raise MissingExtra("httpx", "broker")

from whimbrel.client.asynchronous import AsyncClient
from whimbrel.client.errors import (
    BadAuthority,
    BadName,
    ClientError,
    Gone,
    PublisherClosed,
    Refused,
    StreamEnded,
    Unreachable,
)
from whimbrel.client.publisher import Publisher
from whimbrel.client.synchronous import Client
from whimbrel.client.threaded_publisher import ThreadedPublisher
from whimbrel.client.wire import Message, PublishResult

__all__ = [
    "AsyncClient",
    "BadAuthority",
    "BadName",
    "Client",
    "ClientError",
    "Gone",
    "Message",
    "PublishResult",
    "Publisher",
    "PublisherClosed",
    "Refused",
    "StreamEnded",
    "ThreadedPublisher",
    "Unreachable",
]
