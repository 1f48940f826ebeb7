"""TLS with a private authority: the broker, both clients and the command line."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from tests.broker.certificates import Certificates, make_certificates
from tests.broker.processes import PLAIN, BrokerProcess
from whimbrel.cli.main import app
from whimbrel.client import AsyncClient, BadAuthority, Client, Unreachable


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("tls"), **certificates.settings) as process:
        yield process


def test_a_client_trusts_a_private_authority(broker: BrokerProcess, certificates: Certificates) -> None:
    for trust in ({"ca": certificates.authority}, {"tls": certificates.trusting}):
        with Client(broker.url, **trust) as client:  # type: ignore[arg-type]
            id = client.create("data.a = 1")["id"]
            client.publish([{"a": 1}, {"a": 2}])
            assert [message.data for message in client.pull(id)] == [{"a": 1}]
            assert next(iter(client.subscribe(id=id))).data == {"a": 1}


def test_a_client_that_waits_does_too(broker: BrokerProcess, certificates: Certificates) -> None:
    async def work() -> None:
        async with AsyncClient(broker.url, ca=str(certificates.authority)) as client:
            assert (await client.publish({"a": 1}))[0].offset is not None

    asyncio.run(work())


def test_without_it_nothing_is_sent(broker: BrokerProcess, certificates: Certificates, tmp_path: Path) -> None:
    other = make_certificates(tmp_path)
    for ca in (None, other.authority):
        with Client(broker.url, ca=ca, attempts=1) as client, pytest.raises(Unreachable, match="certificate"):
            client.publish({"a": 1})
    with pytest.raises(httpx.TransportError):  # not in plain text
        httpx.get(broker.url.replace("https", "http"), **PLAIN)
    with pytest.raises(BadAuthority, match=r"No such file .* - at .*missing\.pem"):
        Client(broker.url, ca=tmp_path / "missing.pem")
    with pytest.raises(BadAuthority, match="PEM"):
        Client(broker.url, ca=__file__)
    with pytest.raises(ValueError, match="both"):
        Client(broker.url, ca=certificates.authority, tls=ssl.create_default_context())


def test_the_command_line_does_too(broker: BrokerProcess, certificates: Certificates) -> None:
    def call(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*arguments, "--url", broker.url])
        return done.exit_code, done.output

    authority = "--ca", str(certificates.authority)
    status, output = call("publications", "put", "oven", '{"hot": true}', *authority)
    assert status == 0, output
    status, output = call("publications", "get", "oven", *authority)
    assert status == 0 and '"hot":true' in output.replace(" ", "")
    refused = CliRunner().invoke(app, ["publications", "get", "oven", "--ca", "missing.pem", "--url", broker.url])
    assert isinstance(refused.exception, BadAuthority)
