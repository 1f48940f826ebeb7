"""/overlay: what this broker knows of the overlay, and the WebSocket over which peers are linked."""

from __future__ import annotations

import contextlib

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from whimbrel.broker.http.exchange import answer, body_of, caller_of, error_answer, principal_of
from whimbrel.broker.http.operation import OBJECT, Operations, json_body
from whimbrel.broker.http.socket import no_socket
from whimbrel.broker.peering import wire
from whimbrel.broker.peering.connector import Connector
from whimbrel.broker.peering.peering import Peering
from whimbrel.broker.peering.route_tracing import Tracer
from whimbrel.broker.peering.status import overlay_picture, overlay_status
from whimbrel.broker.peering.wire import BadLink
from whimbrel.broker.requests.errors import BadRequest, BrokerError, Unauthorized
from whimbrel.broker.service.principal import ANYBODY

LINK_PATH = wire.PATH


class AcceptedConnection:
    """A `LinkConnection` that a peer opened."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def send(self, frame: bytes) -> None:
        """Send a frame."""
        try:
            await self._socket.send_bytes(frame)
        except (WebSocketDisconnect, RuntimeError) as error:
            raise ConnectionError(str(error)) from None

    async def receive(self) -> bytes:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise ConnectionError(f"closed with {message.get('code')}")
        frame = message.get("bytes")
        if frame is None:
            raise BadLink("bad-message", "Expected a binary frame, but got text")
        return bytes(frame)

    async def close(self, reason: str) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.close(1000, reason[:100])


async def link(websocket: WebSocket) -> None:
    """Serve the connection of a peer. Peers need a token, on loopback too."""
    principal = caller_of(websocket)
    peering: Peering = websocket.app.state.peering
    try:
        if principal is ANYBODY:
            raise Unauthorized("Expected Authorization: Bearer TOKEN, of a token with the scope peer")
        principal.require("peer")
        if wire.SUBPROTOCOL not in (websocket.scope.get("subprotocols") or []):
            raise BadRequest(f"Expected the subprotocol {wire.SUBPROTOCOL}")
    except BrokerError as error:
        peering.refused_peers += 1
        await websocket.send_denial_response(error_answer(error))
        return
    await websocket.accept(wire.SUBPROTOCOL)
    connector: Connector = websocket.app.state.connector
    await connector.serve_accepted(AcceptedConnection(websocket), principal)


OPERATIONS = Operations()


@OPERATIONS.add("GET", "/overlay", {200: OBJECT})
async def status(request: Request) -> Response:
    """Links, topology and routing of this broker."""
    _check_no_rules(request)
    return answer(await overlay_status(request.app.state.peering))


@OPERATIONS.add("GET", "/overlay.svg", {200: "image/svg+xml"})
async def picture(request: Request) -> Response:
    """Brokers and links as a picture."""
    _check_no_rules(request)
    drawn = await overlay_picture(request.app.state.peering)
    return Response(drawn, media_type="image/svg+xml", headers={"content-security-policy": "default-src 'none'"})


@OPERATIONS.add("POST", "/overlay/trace", {200: OBJECT}, json_body(OBJECT), errors=(422,))
async def trace(request: Request) -> Response:
    """Which brokers would forward an event, by which node and filter, and which would stop it."""
    principal_of(request, "admin")
    peering: Peering = request.app.state.peering
    peering.activate()
    tracer: Tracer = request.app.state.tracer
    return answer({"hops": await tracer.trace(await body_of(request))})


@OPERATIONS.add("DELETE", "/overlay/links/{peer}", {204: None}, errors=(404,))
async def end(request: Request) -> Response:
    """End a link for good, and forget the peer's filters."""
    principal_of(request, "admin")
    peering: Peering = request.app.state.peering
    await peering.end_link(request.path_params["peer"], "removed")
    return Response(status_code=204)


@OPERATIONS.add("GET", LINK_PATH, {101: None}, errors=(400, 401, 403, 426))
async def no_link(request: Request) -> Response:
    """The WebSocket of a peer, with the subprotocol whimbrel.overlay; for other brokers."""
    return await no_socket(request)


def _check_no_rules(request: Request) -> None:
    caller_of(request).require_no_rules("counts include everybody's events")
