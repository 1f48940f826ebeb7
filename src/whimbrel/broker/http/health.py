"""Whether the broker works, and what it counts: /healthz, /readyz, /metrics."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import answer, broker_of, caller_of
from whimbrel.broker.http.operation import OBJECT, Operations
from whimbrel.broker.service.metrics import CONTENT_TYPE

OPERATIONS = Operations()


@OPERATIONS.add("GET", "/healthz", {200: OBJECT, 503: OBJECT})
async def healthz(request: Request) -> Response:
    """Whether the process works."""
    failed = broker_of(request).failure is not None
    return answer({"status": "failed" if failed else "ok"}, 503 if failed else 200)


@OPERATIONS.add("GET", "/readyz", {200: OBJECT, 503: OBJECT})
async def readyz(request: Request) -> Response:
    """Whether requests are taken."""
    broker = broker_of(request)
    engine = {"name": broker.settings.engine, "state": broker.engine_state}
    return answer({"ready": broker.ready, "engine": engine}, 200 if broker.ready else 503)


@OPERATIONS.add("GET", "/metrics", {200: "text/plain"})
async def metrics(request: Request) -> Response:
    """Counts for Prometheus."""
    caller_of(request).require_no_rules("counts include everybody's events")
    return Response(request.app.state.metrics.render(), media_type=CONTENT_TYPE)
