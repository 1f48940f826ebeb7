"""Requests made from the OpenAPI document, good and bad: never a 5xx, and nothing but what the document says."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import httpx
import pytest

from tests.broker.processes import PLAIN, BrokerProcess

schemathesis = pytest.importorskip("schemathesis", reason="the fuzzer needs schemathesis")

from hypothesis import HealthCheck, Phase, settings  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from whimbrel.broker.http.app import OPERATIONS  # noqa: E402
from whimbrel.broker.http.openapi import openapi_document  # noqa: E402

# Streams do not end by themselves, a WebSocket is no request, /matches waits as long as it is told, and commits are
# MessagePack, which the fuzzer cannot write (bad ones are in test_engines.py).
LEFT_OUT = (
    "/subscriptions/{id}/stream", "/subscriptions/{id}/ws", "/stream", "/live", "/matches", "/matches/commits",
)  # fmt: skip


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a token whose name nobody guesses, so that the fuzzer does not revoke its own."""
    with BrokerProcess(tmp_path_factory.mktemp("fuzzed")) as running:
        body = {"name": uuid.uuid4().hex, "scopes": ["admin"]}
        TOKEN.append(httpx.post(f"{running.url}/tokens", json=body, **PLAIN).json()["token"])
        yield running


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: object, value: object) -> bytes:
    return str(value).encode(errors="replace")


schema = schemathesis.openapi.from_dict(openapi_document(OPERATIONS)).exclude(path=list(LEFT_OUT))


TOKEN: list[str] = []
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    unsupported_method,
]
COMMON = settings(deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))


@schema.parametrize()
@settings(COMMON, max_examples=5)
def test_no_request_breaks_the_broker(case: schemathesis.Case, process: BrokerProcess) -> None:
    send(case, process)


@pytest.mark.soak
@schema.parametrize()
@settings(COMMON, max_examples=1_000)
def test_no_request_of_very_many_breaks_the_broker(case: schemathesis.Case, process: BrokerProcess) -> None:
    send(case, process)


def send(case: schemathesis.Case, process: BrokerProcess) -> None:
    """Status, headers and content must be what the document says, whatever was sent."""
    headers = {"authorization": f"Bearer {TOKEN[0]}"}
    case.call_and_validate(base_url=process.url, headers=headers, timeout=30, checks=CHECKS)
