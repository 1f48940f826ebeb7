"""The application: which path does what."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp

from whimbrel.broker.http import documents, messages, operations, publish, subscribing
from whimbrel.broker.http.exchange import answer, error_answer
from whimbrel.broker.http.guard import Guard, RateLimits
from whimbrel.broker.http.socket import socket
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.metrics import Metrics
from whimbrel.model.errors import WhimbrelError


def routes() -> list[Route | WebSocketRoute]:
    """All paths. Those that are words come before those with an id."""
    one = "/subscriptions/{id:str}"
    return [
        Route("/events", publish.publish, methods=["POST"]),
        Route("/subscriptions", subscribing.create, methods=["POST"]),
        Route("/subscriptions", subscribing.listing, methods=["GET"]),
        Route("/subscriptions/import", subscribing.import_lines, methods=["POST"]),
        Route("/subscriptions/export", subscribing.export_lines, methods=["GET"]),
        Route("/subscriptions/validate", subscribing.validate, methods=["POST"]),
        Route("/subscriptions/explain", subscribing.explain, methods=["POST"]),
        Route("/subscriptions/preview", subscribing.preview, methods=["POST"]),
        Route("/subscriptions/lint", subscribing.lint, methods=["GET"]),
        Route(one, subscribing.read, methods=["GET"]),
        Route(one, subscribing.replace, methods=["PUT"]),
        Route(one, subscribing.delete, methods=["DELETE"]),
        Route(f"{one}/explain", subscribing.explain, methods=["POST"]),
        Route(f"{one}/messages", messages.pull, methods=["GET"]),
        Route(f"{one}/ack", messages.acknowledge, methods=["POST"]),
        Route(f"{one}/stream", messages.stream, methods=["GET"]),
        WebSocketRoute(f"{one}/ws", socket),
        Route("/stream", messages.ephemeral_stream, methods=["GET"]),
        Route("/dead-letters", operations.dead_letters, methods=["GET"]),
        Route("/tokens", operations.create_token, methods=["POST"]),
        Route("/tokens", operations.list_tokens, methods=["GET"]),
        Route("/tokens/{name:str}", operations.change_token, methods=["PUT"]),
        Route("/tokens/{name:str}", operations.revoke_token, methods=["DELETE"]),
        Route("/healthz", operations.healthz, methods=["GET"]),
        Route("/readyz", operations.readyz, methods=["GET"]),
        Route("/metrics", operations.metrics, methods=["GET"]),
        Route("/openapi.json", documents.openapi, methods=["GET"]),
        Route("/docs", documents.docs, methods=["GET"]),
    ]


def application(broker: Broker) -> ASGIApp:
    """The ASGI application that serves a broker."""
    app = Starlette(routes=routes(), exception_handlers={WhimbrelError: _refused, HTTPException: _no_such_path})
    app.state.broker = broker
    app.state.metrics = Metrics(broker)
    app.state.event_rate = RateLimits(broker.settings.events_per_second)
    return Guard(app, broker)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, WhimbrelError)
    return error_answer(error)


async def _no_such_path(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: "not-found", 405: "method-not-allowed"}
    problem = {"code": codes.get(error.status_code, "bad-request"), "message": error.detail}
    return answer({"error": problem}, error.status_code, error.headers)
