"""/overlay: what this broker knows of the overlay, and the WebSocket over which peers are linked."""

from __future__ import annotations

import contextlib

from starlette.requests import Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from whimbrel.broker.http.exchange import ErrorAnswer, answer, body_of, error_answer, principal_of
from whimbrel.broker.http.operation import OBJECT, Operation, json_body
from whimbrel.broker.http.socket import no_socket
from whimbrel.broker.peering import wire
from whimbrel.broker.peering.connector import Connector
from whimbrel.broker.peering.peering import Peering
from whimbrel.broker.peering.route_tracing import Tracer
from whimbrel.broker.peering.status import overlay_picture, overlay_status
from whimbrel.broker.peering.wire import BadLink
from whimbrel.broker.requests.errors import BadRequest, BrokerError, Forbidden, Unauthorized
from whimbrel.broker.service.principal import ANYBODY, Principal

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
    principal: Principal = websocket.scope["whimbrel.principal"]
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


async def status(request: Request) -> Response:
    """GET /overlay."""
    _look(request)
    return answer(await overlay_status(request.app.state.peering))


async def picture(request: Request) -> Response:
    """GET /overlay.svg."""
    _look(request)
    drawn = await overlay_picture(request.app.state.peering)
    return Response(drawn, media_type="image/svg+xml", headers={"content-security-policy": "default-src 'none'"})


async def trace(request: Request) -> Response:
    """POST /overlay/trace: an event as filters see it."""
    principal_of(request, "admin")
    peering: Peering = request.app.state.peering
    peering.activate()
    tracer: Tracer = request.app.state.tracer
    return answer({"hops": await tracer.trace(await body_of(request))})


async def end(request: Request) -> Response:
    """DELETE /overlay/links/{peer}."""
    principal_of(request, "admin")
    peering: Peering = request.app.state.peering
    await peering.end_link(request.path_params["peer"], "removed")
    return Response(status_code=204)


async def no_link(request: Request) -> Response:
    """Refuse a request to link that does not ask for a WebSocket."""
    return await no_socket(request)


def _look(request: Request) -> None:
    """Forbidden for a token with rules: counts include everybody's events."""
    principal: Principal = request.scope["whimbrel.principal"]
    if principal.rules:
        raise Forbidden("Expected a token without rules")


OPERATIONS = [
    Operation("GET", "/overlay", status, "Links, topology and routing of this broker.", {200: OBJECT}),
    Operation("GET", "/overlay.svg", picture, "Brokers and links as a picture.", {200: "image/svg+xml"}),
    Operation(
        "POST",
        "/overlay/trace",
        trace,
        "Which brokers would forward an event, by which node and filter, and which would stop it.",
        {200: OBJECT, 422: ErrorAnswer},
        json_body(OBJECT),
    ),
    Operation(
        "DELETE",
        "/overlay/links/{peer}",
        end,
        "End a link for good, and forget the peer's filters.",
        {204: None, 404: ErrorAnswer},
    ),
    Operation(
        "GET",
        LINK_PATH,
        no_link,
        "The WebSocket of a peer, with the subprotocol whimbrel.overlay; for other brokers.",
        {101: None, 400: ErrorAnswer, 401: ErrorAnswer, 403: ErrorAnswer, 426: ErrorAnswer},
    ),
]
