"""The first messages of a connection, before there is a session."""

from __future__ import annotations

import asyncio
import contextlib

from whimbrel.broker.peering import wire
from whimbrel.broker.peering.link_session import LinkConnection
from whimbrel.broker.peering.wire import BadLink


async def say(connection: LinkConnection, message: wire.Hello | wire.Bye) -> None:
    """Send a message."""
    for frame in wire.frames(wire.encode(message)):
        await connection.send(frame)


async def first_message(connection: LinkConnection) -> wire.Hello:
    """The hello of a peer; BadLink if something else comes."""
    assembler = wire.Assembler(wire.HELLO_BYTES)
    while (whole := assembler.add(await connection.receive())) is None:
        pass
    return wire.decode_hello(whole)


async def refuse(connection: LinkConnection, error: BadLink) -> None:
    """Say why a peer cannot be linked, and close."""
    with contextlib.suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(1.0):
            await say(connection, wire.Bye(error.code, error.message[:4096]))
    await connection.close(error.message)
