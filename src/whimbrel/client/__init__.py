"""A client of the broker: `AsyncClient`, and `Client` with the same calls for programs without an event loop."""

from importlib.util import find_spec

from whimbrel.model.errors import MissingExtra

if find_spec("httpx") is None:
    raise MissingExtra("httpx", "broker")

from whimbrel.client.asynchronous import AsyncClient
from whimbrel.client.errors import BadAuthority, ClientError, Gone, Refused, StreamEnded, Unreachable
from whimbrel.client.publisher import Publisher
from whimbrel.client.synchronous import Client
from whimbrel.client.threaded_publisher import ThreadedPublisher
from whimbrel.client.wire import Message, PublishResult

__all__ = [
    "AsyncClient",
    "BadAuthority",
    "Client",
    "ClientError",
    "Gone",
    "Message",
    "PublishResult",
    "Publisher",
    "Refused",
    "StreamEnded",
    "ThreadedPublisher",
    "Unreachable",
]
