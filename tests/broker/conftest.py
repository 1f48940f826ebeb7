"""A broker process that the tests of a module share, and where logs are truncated."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.broker.processes import PLAIN, BrokerProcess
from tests.broker.truncated import Target


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as process:
        yield process
        assert process.stop() == 0


@pytest.fixture
def http(broker: BrokerProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=broker.url, timeout=120, **PLAIN) as client:
        yield client


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Target:
    return Target(monkeypatch)
