"""The OpenAPI document, made from the table below and the structs of the endpoints, and a page that shows it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from whimbrel.broker.http.exchange import answer
from whimbrel.broker.http.messages import PullAnswer
from whimbrel.broker.http.operations import TokenRequest
from whimbrel.broker.http.publish import PublishAnswer
from whimbrel.broker.requests.subscriptions import SubscriptionRequest


class Operation(NamedTuple):
    """One method of one path. `body` is a media type with its schema; `answers` are statuses with theirs."""

    method: str
    path: str
    summary: str
    body: dict[str, Any] | None = None
    answers: Mapping[int, Any] = MappingProxyType({})
    query: Mapping[str, dict[str, Any]] = MappingProxyType({})


_OBJECT = {"type": "object"}
_LIMIT = {"type": "integer", "minimum": 1, "maximum": 1000}
_CURSOR = {"type": "string", "pattern": r"^(-1|[0-9]{1,18})(\.[0-9]{1,9})?$"}
_CLOUD_EVENT = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0", "type": "string"},
        "id": {"type": "string", "minLength": 1},
        "source": {"type": "string", "minLength": 1},
        "type": {"type": "string", "minLength": 1},
    },
}
_EVENTS = {
    "application/cloudevents+json": _CLOUD_EVENT,
    "application/cloudevents-batch+json": {"type": "array", "items": _CLOUD_EVENT},
    "application/json": {},
    "application/x-ndjson": {"type": "string"},
}


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": schema}


def _operations() -> list[Operation]:
    request, token = SubscriptionRequest, TokenRequest
    one = "/subscriptions/{id}"
    return [
        Operation(
            "post",
            "/events",
            "Publish events. The answer comes when they are on disk.",
            _EVENTS,
            {200: PublishAnswer, 422: PublishAnswer, 503: _OBJECT},
        ),
        Operation("post", "/subscriptions", "Create a subscription.", _json(request), {201: _OBJECT, 422: _OBJECT}),
        Operation(
            "get",
            "/subscriptions",
            "List subscriptions, in the order of their ids.",
            None,
            {200: _OBJECT},
            {
                "after": {"type": "string"},
                "limit": _LIMIT,
                "protocol": {"enum": ["PULL", "SSE", "WS"], "type": "string"},
            },
        ),
        Operation(
            "post",
            "/subscriptions/import",
            "Create many: one subscription per line.",
            {"application/x-ndjson": {"type": "string"}},
            {200: _OBJECT, 422: _OBJECT},
        ),
        Operation(
            "get", "/subscriptions/export", "All subscriptions, one per line, as import takes them.", None, {200: None}
        ),
        Operation(
            "post",
            "/subscriptions/validate",
            "Say whether a subscription would be taken, and what its filter means.",
            _json(request),
            {200: _OBJECT},
        ),
        Operation(
            "post",
            "/subscriptions/explain",
            "Say why an event matches a filter, or why not.",
            _json(_OBJECT),
            {200: _OBJECT, 422: _OBJECT},
        ),
        Operation(
            "post",
            "/subscriptions/preview",
            "Show what a subscription would have matched among stored events.",
            _json(request),
            {200: _OBJECT, 422: _OBJECT},
            {
                "limit": {"type": "integer", "minimum": 0, "maximum": 1000},
                "events": {"type": "integer", "minimum": 1, "maximum": 100_000},
            },
        ),
        Operation(
            "get", "/subscriptions/lint", "Say what is suspicious about one's subscriptions.", None, {200: _OBJECT}
        ),
        Operation(
            "get",
            one,
            "Read a subscription, with its cursor and how many messages wait.",
            None,
            {200: _OBJECT, 404: _OBJECT},
        ),
        Operation(
            "put",
            one,
            "Give a subscription another filter. If-Match names the version to replace.",
            _json(request),
            {200: _OBJECT, 404: _OBJECT, 412: _OBJECT, 422: _OBJECT},
        ),
        Operation("delete", one, "End a subscription.", None, {204: None, 404: _OBJECT, 412: _OBJECT}),
        Operation(
            "post",
            f"{one}/explain",
            "Say why an event, given or at an offset, matches or not.",
            _json(_OBJECT),
            {200: _OBJECT, 404: _OBJECT, 422: _OBJECT},
        ),
        Operation(
            "get",
            f"{one}/messages",
            "Pull messages behind a cursor; never moves the cursor.",
            None,
            {200: PullAnswer, 404: _OBJECT, 422: _OBJECT},
            {"after": _CURSOR, "limit": _LIMIT, "wait": {"type": "number", "minimum": 0, "maximum": 60}},
        ),
        Operation(
            "post",
            f"{one}/ack",
            "Move the cursor: messages up to it are done.",
            _json(
                {
                    "oneOf": [
                        {
                            "type": "object",
                            "required": ["offset"],
                            "properties": {"offset": {"type": "integer"}},
                            "additionalProperties": False,
                        },
                        {
                            "type": "object",
                            "required": ["cursor"],
                            "properties": {"cursor": _CURSOR},
                            "additionalProperties": False,
                        },
                    ]
                }
            ),
            {200: _OBJECT, 404: _OBJECT, 422: _OBJECT},
        ),
        Operation(
            "get",
            f"{one}/stream",
            "Server-Sent Events, from Last-Event-ID or the cursor on.",
            None,
            {200: None, 404: _OBJECT, 422: _OBJECT},
        ),
        Operation(
            "get", f"{one}/ws", "A WebSocket with the subprotocol cloudevents.json.", None, {101: None, 404: _OBJECT}
        ),
        Operation(
            "get",
            "/stream",
            "Server-Sent Events of what a filter matches from now on.",
            None,
            {200: None, 422: _OBJECT},
            {
                "filter": {"type": "string"},
                "dialect": {"type": "string"},
                "policy": {"enum": ["drop-oldest", "drop-newest", "disconnect"], "type": "string"},
            },
        ),
        Operation(
            "get",
            "/dead-letters",
            "Events that were refused, with reasons.",
            None,
            {200: _OBJECT},
            {"after": {"type": "integer", "minimum": 0}, "limit": _LIMIT},
        ),
        Operation(
            "post",
            "/tokens",
            "Create a token; its text is shown once.",
            _json(token),
            {201: _OBJECT, 409: _OBJECT, 422: _OBJECT},
        ),
        Operation("get", "/tokens", "List tokens, without secrets.", None, {200: _OBJECT}),
        Operation(
            "put", "/tokens/{name}", "Give a token other rights.", _json(token), {204: None, 404: _OBJECT, 422: _OBJECT}
        ),
        Operation(
            "delete", "/tokens/{name}", "Revoke a token; its subscriptions end.", None, {204: None, 404: _OBJECT}
        ),
        Operation("get", "/healthz", "Whether the process works.", None, {200: _OBJECT, 503: _OBJECT}),
        Operation("get", "/readyz", "Whether requests are taken.", None, {200: _OBJECT, 503: _OBJECT}),
        Operation("get", "/metrics", "Counts for Prometheus.", None, {200: None}),
    ]


@cache
def openapi_document() -> dict[str, Any]:
    """The document."""
    operations = _operations()
    structs = [SubscriptionRequest, TokenRequest, PublishAnswer, PullAnswer]
    references, components = msgspec.json.schema_components(structs, ref_template="#/components/schemas/{name}")
    schemas = dict(zip(structs, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = _described(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Whimbrel", "version": version("whimbrel")},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _described(operation: Operation, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    def schema(item: Any) -> Any:
        return schemas[item] if isinstance(item, type) else item

    described: dict[str, Any] = {"summary": operation.summary, "responses": {}}
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    described["parameters"] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
    ] + [{"name": name, "in": "query", "schema": kind} for name, kind in operation.query.items()]
    if operation.body is not None:
        content = {kind: {"schema": schema(item)} for kind, item in operation.body.items()}
        described["requestBody"] = {"required": True, "content": content}
    for status, item in operation.answers.items():
        found = {"description": "ok" if status < 400 else "refused"}
        content = {} if item is None else {"content": {"application/json": {"schema": schema(item)}}}
        described["responses"][str(status)] = found | content
    error = {"description": "refused", "content": {"application/json": {"schema": _OBJECT}}}
    described["responses"]["4XX"] = error
    return described


async def openapi(_: Request) -> Response:
    """GET /openapi.json."""
    return answer(openapi_document())


async def docs(_: Request) -> Response:
    """GET /docs: the operations on one page, without scripts."""
    rows = "".join(
        f"<tr><td><code>{operation.method.upper()}</code></td><td><code>{html.escape(operation.path)}</code></td>"
        f"<td>{html.escape(operation.summary)}</td></tr>"
        for operation in _operations()
    )
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        "<title>Whimbrel</title><style>body{font:16px/1.5 system-ui;margin:2rem auto;max-width:60rem;padding:0 1rem;"
        "color-scheme:light dark}td{padding:.2rem .8rem .2rem 0;vertical-align:top}</style>"
        f"<h1>Whimbrel {html.escape(version('whimbrel'))}</h1><p>The broker's HTTP interface. The description is in"
        ' <a href="/openapi.json">openapi.json</a>.</p>'
        f"<table>{rows}</table></html>"
    )
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return HTMLResponse(page, headers={"content-security-policy": policy})
