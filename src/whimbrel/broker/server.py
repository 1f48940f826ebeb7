"""Run a broker: uvicorn around the application, with limits on connections that it does not have itself.

The process ends with status 0 after SIGTERM or SIGINT, when everything that was taken is on disk and answered, and with
status 1 when the log fails.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from whimbrel.broker.http.app import application
from whimbrel.broker.http.exchange import RequestTimeout, error_answer
from whimbrel.broker.logs import configure_logs
from whimbrel.broker.peering.connector import Connector
from whimbrel.broker.peering.peering import Peering
from whimbrel.broker.requests.errors import BadRequest, BrokerError, HeadTooLarge
from whimbrel.broker.requests.settings import BadSettings, Settings
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.spark_process import child_address
from whimbrel.broker.service.warm_up import warm_up

logger = logging.getLogger("whimbrel.broker")

HEADER_BYTES = 32 << 10
"""The head of a request, at most."""
SEND_BYTES = 256 << 10
"""What the system keeps for a client that reads slowly (Linux doubles it); it would take up to 4 MiB by itself."""
STOP_SECONDS = 10.0
"""How long open requests may take when the broker stops."""
_SWITCH_SECONDS = 0.001
_SPARE = 500
"""Connections above the limit that are answered, with an error."""
_GC_OBJECTS = 50_000
"""New objects after which the garbage collector looks at the young ones. Requests make no cycles to speak of."""


class GuardedProtocol(HttpToolsProtocol):
    """HTTP/1.1 with bounds on all that is no body: a client that sends it slowly, or without end, is cut off.

    The parser keeps what it has read of a head, or of the trailers behind a body, however long they are. So bytes are
    counted that bring neither a whole head nor a piece of a body. Bytes that come when everything is answered must lead
    to a whole head in time, too: uvicorn would wait for ever, also for the rest of a body that nobody reads.
    """

    settings = Settings()
    _timer: asyncio.TimerHandle | None = None
    _unfinished = 0
    _has_progress = False

    def connection_made(self, transport: Any) -> None:
        """Start the clock. A connection above the limit is closed at once."""
        super().connection_made(transport)
        if len(self.connections) > self.settings.connections + _SPARE:
            transport.abort()
            return
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Count the bytes that the parser keeps to itself."""
        self._has_progress = False
        super().data_received(data)
        self._unfinished = 0 if self._has_progress else self._unfinished + len(data)
        if self._unfinished > HEADER_BYTES:
            self._refuse(_too_long())
        is_open = self in self.connections and not self.transport.is_closing()  # it leaves when it becomes a WebSocket
        if is_open and self._timer is None and self.cycle is not None and self.cycle.response_complete:
            self._expect_head()

    def on_message_begin(self) -> None:
        """Start the clock for a new head."""
        super().on_message_begin()
        if self._timer is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Stop the clock: the head is complete. One that came too fast to be cut off may be too long."""
        self._stop_timer()
        self._unfinished = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if self._unfinished > HEADER_BYTES:
            raise ValueError("the head is too long")  # which uvicorn answers with `send_400_response`
        self._has_progress = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._has_progress = True
        super().on_body(body)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, or whose head is too long."""
        self._refuse(_too_long() if self._unfinished > HEADER_BYTES else BadRequest("Expected a request of HTTP/1.1"))

    def _expect_head(self) -> None:
        seconds = self.settings.head_seconds
        error = RequestTimeout(f"Expected the head of a request within {seconds:g} seconds")
        self._timer = self.loop.call_later(seconds, self._refuse, error)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, error: BrokerError) -> None:
        """Answer, in the form that all errors have, and close the connection."""
        self._stop_timer()
        if not self.transport.is_closing():
            answer = error_answer(error)
            head = [b"%b: %b\r\n" % header for header in answer.raw_headers]
            closing = [*head, b"connection: close\r\n\r\n", bytes(answer.body)]
            self.transport.write(STATUS_LINE[error.status] + b"".join(closing))
            self.transport.close()


def _too_long() -> HeadTooLarge:
    return HeadTooLarge(f"Expected a head, and trailers, of at most {HEADER_BYTES:,} bytes")


class StoppableSocket(WebSocketsSansIOProtocol):
    """A WebSocket that can be shut down while its client closes it: uvicorn's own raises, which would end the stop."""

    def shutdown(self) -> None:
        """Close the connection; the rest of what was to be sent is dropped if the client has closed."""
        try:
            super().shutdown()
        except InvalidState:
            self.transport.abort()


def serve(settings: Settings, started: Callable[[str], None] | None = None) -> int:
    """Serve until a signal comes. `started` gets the address. Returns the exit status."""
    configure_logs(settings.log, settings.log_level)
    sys.setswitchinterval(_SWITCH_SECONDS)
    _allow_connections(settings.connections)
    listener = _listen(settings)
    if settings.engine != "spark":  # which matches in processes of its own
        warm_up()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_serve(settings, listener, started))
    finally:
        listener.close()


async def _serve(settings: Settings, listener: socket.socket, started: Callable[[str], None] | None) -> int:
    server: uvicorn.Server | None = None

    def fail(error: Exception) -> None:
        logger.critical("stopping: %s", error)
        if server is not None:
            server.should_exit = True
            server.force_exit = True

    broker = Broker(settings, fail)
    async with broker:
        if broker.needs_tokens and not broker.tokens.stored:
            raise BadSettings(
                f"Expected tokens before the broker listens on {settings.host}: run `whimbrel token create`, or use"
                " --host 127.0.0.1"
            )
        peering = Peering(broker)
        connector = Connector(peering)
        config = uvicorn.Config(
            application(broker, peering, connector),
            http=type("Protocol", (GuardedProtocol,), {"settings": settings}),
            ws=StoppableSocket,
            ws_max_size=64 << 10,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_graceful_shutdown=int(STOP_SECONDS),
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
        )
        try:
            config.load()
        except OSError as error:
            files = f"{settings.tls_certificate!r} and {settings.tls_key!r}"
            raise BadSettings(f"Expected a certificate and its key in PEM, but got {files}: {error.strerror}") from None
        server = StoppingServer(config, broker, peering)
        _spare_the_collector()
        scheme = "https" if settings.tls_certificate else "http"
        host, port = listener.getsockname()[:2]
        if started is not None:
            started(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
        if broker.spark is not None:
            broker.spark.start(child_address(scheme, host, port))
        logger.info("listening", extra={"fields": _facts(broker)})
        peering.start()
        connector.start()
        await server.serve([listener])
        await peering.stop()
    logger.info("stopped", extra={"fields": {"failed": broker.failure is not None}})
    return 0 if broker.failure is None else 1


def _facts(broker: Broker) -> dict[str, object]:
    """What is worth a line when a broker starts."""
    floor, end = broker.log.bounds
    counts = {"floor": floor, "end": end, "subscriptions": len(broker.index)}
    return {"data": broker.settings.data, "log": broker.log.id, **counts}


class StoppingServer(uvicorn.Server):
    """Closes streams when it stops, so that they do not hold it up."""

    def __init__(self, config: uvicorn.Config, broker: Broker, peering: Peering) -> None:
        super().__init__(config)
        self._broker = broker
        self._peering = peering

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal, and do not raise it again afterwards: there is a broker to close."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in signals:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop to listen, end streams, and wait for open requests."""
        if self._broker.spark is not None:
            await self._broker.spark.stop()
        await self._peering.stop()
        # Last, because clients open streams again that were ended: what follows refuses new requests at once.
        self._broker.hub.close_all("stopping")
        self._broker.matches.stop()
        self._broker.feed.close()
        await super().shutdown(sockets)


def _spare_the_collector() -> None:
    """Exclude all objects that exist now from garbage collection: visiting them would stop everything for 0.1 s."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_OBJECTS, 20, 100)


def _allow_connections(connections: int) -> None:
    """Raise the limit of open files as far as the system lets us, if it is lower than what connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 2 * _SPARE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def _listen(settings: Settings) -> socket.socket:
    """The socket to listen on; port 0 picks a free one."""
    kind = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(kind, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)  # connections inherit it
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise BadSettings(f"Expected to listen on {settings.host}:{settings.port}, but: {error.strerror}") from None
    listener.listen(2048)
    return listener
