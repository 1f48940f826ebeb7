"""POST /events: take events in every form, answer when they are on disk."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import answer, body_of, broker_of, principal_of, problem_of
from whimbrel.broker.requests.envelope import Incoming, PlainEvents, read_events
from whimbrel.broker.requests.errors import BadRequest, BrokerError
from whimbrel.broker.sequencing.group import Published


class EventResult(msgspec.Struct, omit_defaults=True, gc=False):
    """What became of one event: its offset, or an error."""

    offset: int | None = None
    duplicate: bool = False
    error: dict[str, Any] | None = None


class PublishAnswer(msgspec.Struct):
    """What became of the events of a request, in their order."""

    results: list[EventResult]


_plain = PlainEvents()


def _check_once(request: Request) -> None:
    """Refuse attributes that come twice: which one counts?"""
    names = [name for name in request.headers if name.startswith("ce-") or name == "content-type"]
    if len(set(names)) < len(names):
        raise BadRequest("Expected each ce- header and Content-Type once")


async def publish(request: Request) -> Response:
    """Publish the events of a request."""
    broker, principal = broker_of(request), principal_of(request, "publish")
    body = await body_of(request)
    started = perf_counter()
    headers = dict(request.headers.items())
    if len(headers) < len(request.headers.keys()):
        _check_once(request)
    found = read_events(headers.get("content-type", ""), headers, body, principal.name, _plain)
    good = [event for event in found if isinstance(event, Incoming)]
    request.app.state.event_rate.take(principal.name, len(good))
    outcomes: Sequence[Published | BrokerError] = await broker.publish(good, principal) if good else []
    if len(good) < len(found):
        rest = iter(outcomes)
        outcomes = [next(rest) if isinstance(event, Incoming) else event for event in found]
    results = [
        EventResult(*outcome) if isinstance(outcome, Published) else EventResult(error=problem_of(outcome))
        for outcome in outcomes
    ]
    request.app.state.metrics.publish_seconds.observe(perf_counter() - started)
    refused = bool(results) and all(result.error is not None for result in results)
    return answer(PublishAnswer(results), 422 if refused else 200)
