"""Where webhooks may go: only to addresses that were checked, whatever DNS says afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.inside import event, publish, run, subscribe
from tests.broker.webhooks.receiver import Receiver
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.service import broker as broker_module
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.webhooks import addresses as addresses_module
from whimbrel.broker.webhooks.addresses import Addresses, ForbiddenAddress, UnknownHost
from whimbrel.broker.webhooks.engine import WebhookEngine

FORBIDDEN = [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%lo",
    "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:80ff:fffe", "2001:db8::1", "nonsense",
]  # fmt: skip


@pytest.mark.parametrize("address", FORBIDDEN)
def test_addresses_that_are_not_global_are_refused(address: str) -> None:
    assert not Addresses().allows(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8"])
def test_global_addresses_are_allowed(address: str) -> None:
    assert Addresses().allows(address)


def test_networks_are_allowed_by_the_settings_and_no_others() -> None:
    checked = Addresses(["10.0.0.0/8", "::1/128"])
    assert checked.allows("10.1.2.3") and checked.allows("::1") and checked.allows("::ffff:10.1.2.3")
    assert not checked.allows("127.0.0.1") and not checked.allows("::2")


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "localhost"])
def test_other_ways_to_write_loopback_are_refused_too(host: str) -> None:
    with pytest.raises((ForbiddenAddress, UnknownHost)):
        run(lambda: Addresses().of(host))


def test_a_name_with_one_bad_address_is_refused_as_a_whole() -> None:
    async def resolve(_: str) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(ForbiddenAddress) as error:
        run(lambda: Addresses(resolve=resolve).of("mixed.test"))
    assert "10.0.0.1" not in str(error.value)


class Dns:
    """Names whose addresses change with every question."""

    def __init__(self, *answers: list[str]) -> None:
        self.asked = 0
        self._answers: Iterator[list[str]] = iter(answers)
        self._last: list[str] = []

    async def resolve(self, _: str) -> list[str]:
        self.asked += 1
        self._last = next(self._answers, self._last)
        return self._last


async def _deliver(
    directory: Path, dns: Dns, sink: str, monkeypatch: pytest.MonkeyPatch, events: int = 3
) -> tuple[Broker, str]:
    """A broker whose names are resolved by `dns`; only 127.0.0.2 is allowed."""
    settings = Settings(
        data=str(directory), webhook_networks=["127.0.0.2/32"], webhook_schedule=[0, 0.01], webhook_seconds=2
    )
    monkeypatch.setattr(
        broker_module, "WebhookEngine", lambda *arguments: WebhookEngine(*arguments, resolve=dns.resolve)
    )
    broker = await Broker(settings).__aenter__()
    made = await subscribe(broker, "TRUE", protocol="HTTP", sink=sink, protocolsettings={"consent": "waived"})
    for number in range(events):
        await publish(broker, event(number))
    return broker, made.id


def test_a_name_that_changes_its_address_reaches_only_what_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses_module, "KEPT_SECONDS", 0.0)
    # Both listen on the same port, so that only the address decides.
    with Receiver(host="127.0.0.2") as good, Receiver(host="127.0.0.3", port=good.port) as trap:
        dns = Dns(["127.0.0.2"], ["127.0.0.3"])

        async def work() -> None:
            broker, _ = await _deliver(tmp_path, dns, f"http://rebound.test:{good.port}/hook", monkeypatch)
            await asyncio.to_thread(good.wait, 1)
            assert good.got[0].headers["host"] == f"rebound.test:{good.port}"
            await asyncio.to_thread(good.wait, 3)  # over a connection that is kept, to the address that was checked
            sink = f"http://again.test:{good.port}/"  # a new connection is checked again
            other = await subscribe(broker, "TRUE", protocol="HTTP", sink=sink, protocolsettings={"consent": "waived"})
            await publish(broker, event("late"))
            for _ in range(1_000):
                if broker.webhooks.state(other).get("state") == "disabled":
                    break
                await asyncio.sleep(0.01)
            state = broker.webhooks.state(other)
            assert state["state"] == "disabled" and "global addresses" in str(state["problem"])
            await broker.__aexit__()

        run(work)
        assert trap.got == [] and trap.asked == [] and dns.asked >= 2


@pytest.mark.parametrize(
    "sink", ["http://127.0.0.1:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "http://localhost:{port}/"]
)
def test_neither_consent_nor_messages_nor_tests_reach_a_private_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink: str
) -> None:
    with Receiver() as trap:
        dns = Dns(["127.0.0.1"])

        async def work() -> None:
            broker, id = await _deliver(tmp_path, dns, sink.format(port=trap.port), monkeypatch)
            asking = await subscribe(broker, "TRUE", protocol="HTTP", sink=sink.format(port=trap.port))
            held = broker.store.subscription(id)
            assert held is not None
            for _ in range(1_000):
                states = [broker.webhooks.state(one).get("state") for one in (held, asking)]
                if states == ["disabled", "disabled"]:
                    break
                await asyncio.sleep(0.01)
            assert states == ["disabled", "disabled"]
            result = await broker.webhooks.test(held)
            assert result.status is None and "global addresses" in str(result.problem)
            await broker.__aexit__()

        run(work)
        assert trap.got == [] and trap.asked == []


def test_a_redirect_is_a_failure_and_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as trap:
        with Receiver(lambda _: (307, {"location": trap.url}), host="127.0.0.2") as receiver:

            async def work() -> None:
                broker, id = await _deliver(tmp_path, Dns(), receiver.url, monkeypatch, events=1)
                await asyncio.to_thread(receiver.wait, 2)
                held = broker.store.subscription(id)
                assert held is not None
                for _ in range(1_000):
                    if broker.webhooks.state(held)["state"] == "disabled":
                        break
                    await asyncio.sleep(0.01)
                assert "307" in str(broker.webhooks.state(held)["problem"])
                await broker.__aexit__()

            run(work)
        assert trap.got == [] and trap.asked == []
