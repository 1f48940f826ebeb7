"""The application: which path does what."""

from __future__ import annotations

import logging

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp

from whimbrel.broker.http import (
    backup,
    filters,
    health,
    matches,
    messages,
    overlay,
    page,
    publications,
    publish,
    schema,
    socket,
    spaces,
    subscriptions,
    tokens,
    webhooks,
)
from whimbrel.broker.http.exchange import ErrorAnswer, Problem, answer, error_answer
from whimbrel.broker.http.guard import Guard, RateLimits
from whimbrel.broker.http.openapi import Documents
from whimbrel.broker.http.operation import Endpoint
from whimbrel.broker.http.request_log import RequestLog
from whimbrel.broker.peering.connector import Connector
from whimbrel.broker.peering.metrics import OverlayCollector
from whimbrel.broker.peering.peering import Peering
from whimbrel.broker.peering.route_tracing import Tracer
from whimbrel.broker.requests.errors import InternalError
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.metrics import Metrics
from whimbrel.broker.store.formats import StoreError
from whimbrel.log import BelowFloor, LogError
from whimbrel.model.errors import WhimbrelError

logger = logging.getLogger("whimbrel.broker")

OPERATIONS = [
    *publish.OPERATIONS,
    *publications.OPERATIONS,
    *spaces.OPERATIONS,
    *publications.IN_SPACES,
    *subscriptions.OPERATIONS,
    *filters.OPERATIONS,
    *messages.OPERATIONS,
    *matches.OPERATIONS,
    *socket.OPERATIONS,
    *webhooks.OPERATIONS,
    *schema.OPERATIONS,
    *backup.OPERATIONS,
    *tokens.OPERATIONS,
    *overlay.OPERATIONS,
    *health.OPERATIONS,
    *page.OPERATIONS,
]
"""Everything that the API offers."""


def application(broker: Broker, peering: Peering, connector: Connector) -> ASGIApp:
    """The ASGI application that serves a broker and its links."""
    app = Starlette(routes=routes(), exception_handlers={WhimbrelError: _refused, HTTPException: _no_such_path})
    app.router.redirect_slashes = False
    app.state.broker = broker
    app.state.peering = peering
    app.state.connector = connector
    app.state.tracer = Tracer(peering)
    app.state.metrics = Metrics(broker)
    app.state.metrics.add(OverlayCollector(peering))
    app.state.event_rate = RateLimits(broker.settings.events_per_second)
    return RequestLog(Guard(app, broker), broker.settings.access_log)


def routes() -> list[Route | WebSocketRoute]:
    """One route for each path. Paths of words come before those with an id."""
    documents = Documents(OPERATIONS)
    by_path: dict[str, dict[str, Endpoint]] = {
        "/": {"GET": page.page},
        page.FILE_PATH: {"GET": page.file},
        "/docs": {"GET": documents.docs},
        "/openapi.json": {"GET": documents.openapi},
    }
    for operation in OPERATIONS:
        by_path.setdefault(operation.path, {})[operation.method] = operation.endpoint
    ordered = sorted(by_path.items(), key=lambda item: item[0].count("{"))
    found: list[Route | WebSocketRoute] = [
        Route(path, _by_method(endpoints), methods=list(endpoints)) for path, endpoints in ordered
    ]
    return [*found, WebSocketRoute(socket.PATH, socket.socket), WebSocketRoute(overlay.LINK_PATH, overlay.link)]


def _by_method(endpoints: dict[str, Endpoint]) -> Endpoint:
    """One endpoint for all methods of a path, so that 405 can name them all."""
    if len(endpoints) == 1:
        return next(iter(endpoints.values()))

    async def endpoint(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return endpoint


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, WhimbrelError)
    if isinstance(error, LogError | StoreError) and not isinstance(error, BelowFloor):  # no fault of the request
        logger.error("a request failed: %s", error, exc_info=error)
        error = InternalError("Expected to answer, but the broker cannot read its data: its log says more")
    return error_answer(error)


async def _no_such_path(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: "not-found", 405: "method-not-allowed"}
    problem = Problem(codes.get(error.status_code, "bad-request"), error.detail)
    return answer(ErrorAnswer(problem), error.status_code, error.headers)
