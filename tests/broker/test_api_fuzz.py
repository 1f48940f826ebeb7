"""Requests made from the OpenAPI document, good and bad: never a 5xx, and nothing but what the document says."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.broker.processes import BrokerProcess

schemathesis = pytest.importorskip("schemathesis", reason="the fuzzer needs schemathesis")

from hypothesis import HealthCheck, Phase, settings  # noqa: E402

from whimbrel.broker.http.app import OPERATIONS  # noqa: E402
from whimbrel.broker.http.documents import openapi_document  # noqa: E402

# Streams do not end by themselves, a WebSocket is no request, and a new token would lock the fuzzer out.
LEFT_OUT = ("/subscriptions/{id}/stream", "/subscriptions/{id}/ws", "/stream", "/tokens", "/tokens/{name}")


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("fuzzed")) as running:
        yield running


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: object, value: object) -> bytes:
    return str(value).encode(errors="replace")


schema = schemathesis.openapi.from_dict(openapi_document(OPERATIONS)).exclude(path=list(LEFT_OUT))


COMMON = settings(deadline=None, phases=[Phase.explicit, Phase.generate], suppress_health_check=list(HealthCheck))


@schema.parametrize()
@settings(COMMON, max_examples=6)
def test_no_request_breaks_the_broker(case: schemathesis.Case, process: BrokerProcess) -> None:
    send(case, process)


@pytest.mark.soak
@schema.parametrize()
@settings(COMMON, max_examples=1_000)
def test_no_request_of_very_many_breaks_the_broker(case: schemathesis.Case, process: BrokerProcess) -> None:
    send(case, process)


def send(case: schemathesis.Case, process: BrokerProcess) -> None:
    response = case.call(base_url=process.url, timeout=30)
    assert response.status_code < 500, response.text
