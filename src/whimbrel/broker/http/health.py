"""Whether the broker works, and what it counts: /healthz, /readyz, /metrics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import answer, broker_of
from whimbrel.broker.http.operation import OBJECT, Operation
from whimbrel.broker.requests.errors import Forbidden
from whimbrel.broker.service.metrics import CONTENT_TYPE
from whimbrel.broker.service.principal import Principal


async def healthz(request: Request) -> Response:
    """Whether the process works at all; 503 once the log has failed."""
    failed = broker_of(request).failure is not None
    return answer({"status": "failed" if failed else "ok"}, 503 if failed else 200)


async def readyz(request: Request) -> Response:
    """Whether requests are taken; and whether events are matched, which publishers do not wait for."""
    broker = broker_of(request)
    engine = {"name": broker.settings.engine, "state": broker.engine_state}
    return answer({"ready": broker.ready, "engine": engine}, 200 if broker.ready else 503)


async def metrics(request: Request) -> Response:
    """What Prometheus scrapes. A token with rules may not see counts of everybody's events."""
    principal: Principal = request.scope["whimbrel.principal"]
    if principal.rules:
        raise Forbidden("Expected a token without rules")
    return Response(request.app.state.metrics.render(), media_type=CONTENT_TYPE)


OPERATIONS = [
    Operation("GET", "/healthz", healthz, "Whether the process works.", {200: OBJECT, 503: OBJECT}),
    Operation("GET", "/readyz", readyz, "Whether requests are taken.", {200: OBJECT, 503: OBJECT}),
    Operation("GET", "/metrics", metrics, "Counts for Prometheus.", {200: "text/plain"}),
]
