"""Turns of channels, in a broker inside the test."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from tests.broker.inside import event, opened, publish, run, subscribe
from tests.broker.webhooks.receiver import Receiver

HOUR = 3_600


class SetClock:
    """The clock that webhooks read, which can be set; `monotonic` cannot."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.behind = 0
        clocks = {
            "time": lambda: time.time() - self.behind,
            "time_ns": lambda: time.time_ns() - self.behind * 1_000_000_000,
        }
        modules = [module for name, module in sys.modules.items() if name.startswith("whimbrel.broker.webhooks.")]
        for module in modules:
            for name, clock in clocks.items():
                if getattr(module, name, None) is getattr(time, name):
                    monkeypatch.setattr(module, name, clock)


@pytest.mark.parametrize("behind", [HOUR, -HOUR])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_retry_comes_in_time_when_the_clock_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind: int, restarts: bool
) -> None:
    clock = SetClock(monkeypatch)
    answers = iter([500, 200])
    pause = 2.0 if restarts and behind < 0 else 0.5  # a restart must be over before it
    settings = {"webhook_networks": ["127.0.0.0/8"], "webhook_schedule": [0, pause]}

    async def fail_once(receiver: Receiver) -> None:
        async with opened(tmp_path, **settings) as broker, asyncio.timeout(30):
            waived = {"consent": "waived"}
            held = await subscribe(broker, "TRUE", protocol="HTTP", sink=receiver.url, protocolsettings=waived)
            await publish(broker, event(1))
            while broker.webhooks.state(held)["state"] != "retrying":
                await asyncio.sleep(0.01)
            clock.behind = behind
            if not restarts:
                await wait_for_retry(receiver)

    async def wait_for_retry(receiver: Receiver) -> None:
        while len(receiver.got) < 2:
            await asyncio.sleep(0.01)
        assert receiver.got[1].time - receiver.got[0].time >= pause

    async def start_again(receiver: Receiver) -> None:
        async with opened(tmp_path, **settings), asyncio.timeout(30):
            await wait_for_retry(receiver)

    with Receiver(lambda _: next(answers)) as receiver:
        run(lambda: fail_once(receiver))
        if restarts:
            run(lambda: start_again(receiver))
