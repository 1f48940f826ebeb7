"""GET /backup: a backup as a stream, for `whimbrel backup URL`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Generator
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from whimbrel.broker.backup.sending import send
from whimbrel.broker.http.exchange import broker_of, principal_of
from whimbrel.broker.http.operation import Operations
from whimbrel.broker.service.broker import Broker

_KIND = "application/vnd.whimbrel.backup"


OPERATIONS = Operations()


@OPERATIONS.add("GET", "/backup", {200: _KIND})
async def backup(request: Request) -> Response:
    """A backup as a stream: see `whimbrel backup`."""
    broker = broker_of(request)
    principal_of(request, "admin")
    frames = send(Path(broker.settings.data), broker.log, broker.retention.stamps)
    return StreamingResponse(_frames(broker, frames), media_type=_KIND)


async def _frames(broker: Broker, frames: Generator[bytes, None, None]) -> AsyncIterator[bytes]:
    """Frames, each read in a thread; what they hold is given back when the receiver is gone, after the last read."""
    reading = threading.Lock()

    def read() -> bytes | None:
        with reading:
            return next(frames, None)

    def close() -> None:
        with reading:
            frames.close()

    try:
        while (piece := await broker.runtime.in_thread(read)) is not None:
            yield piece
    finally:
        await asyncio.shield(broker.runtime.in_thread(close))
