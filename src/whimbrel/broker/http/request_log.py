"""Every request has an id: the client's X-Request-Id, or a new one. It is in the answer, and in what is logged.

With the setting `access_log` there is a line for each request, when it is answered. Queries and headers are not logged:
filters may be secret, and tokens are.
"""

from __future__ import annotations

import logging
from time import perf_counter

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whimbrel.broker.requests.request_trace import REQUEST_ID, request_id

access = logging.getLogger("whimbrel.access")
_STARTS = ("http.response.start", "websocket.accept", "websocket.http.response.start")


class RequestLog:
    """Gives requests their ids, and logs them if asked."""

    def __init__(self, app: ASGIApp, logs: bool) -> None:
        self._app = app
        self._logs = logs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection or request."""
        id = request_id(Headers(scope=scope).get("x-request-id"))
        REQUEST_ID.set(id)
        began = perf_counter()
        status = 0

        async def answered(message: Message) -> None:
            nonlocal status
            if message["type"] in _STARTS:
                status = message.get("status", 101)
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, answered)
        finally:
            if self._logs:
                principal = scope.get("whimbrel.principal")
                fields = {
                    "method": scope.get("method", "WEBSOCKET"),
                    "path": scope["path"],
                    "status": status,
                    "seconds": round(perf_counter() - began, 6),
                    "principal": principal.name if principal is not None else None,
                }
                access.info("%(method)s %(path)s %(status)s", fields, extra={"fields": fields})
