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


def test_a_retry_does_not_wait_for_a_clock_that_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    behind = 0
    clocks = {"time": lambda: time.time() - behind, "time_ns": lambda: time.time_ns() - behind * 1_000_000_000}
    answers = iter([500, 200])
    settings = {"webhook_networks": ["127.0.0.0/8"], "webhook_schedule": [0, 0.5]}

    async def work(receiver: Receiver) -> None:
        nonlocal behind
        async with opened(tmp_path, **settings) as broker, asyncio.timeout(30):
            waived = {"consent": "waived"}
            held = await subscribe(broker, "TRUE", protocol="HTTP", sink=receiver.url, protocolsettings=waived)
            for module in [
                module for name, module in sys.modules.items() if name.startswith("whimbrel.broker.webhooks.")
            ]:
                for name, clock in clocks.items():
                    if getattr(module, name, None) is getattr(time, name):
                        monkeypatch.setattr(module, name, clock)
            await publish(broker, event(1))
            while broker.webhooks.state(held)["state"] != "retrying":
                await asyncio.sleep(0.01)
            behind = HOUR
            while len(receiver.got) < 2:
                await asyncio.sleep(0.01)
            assert receiver.got[1].time - receiver.got[0].time >= 0.5

    with Receiver(lambda _: next(answers)) as receiver:
        run(lambda: work(receiver))
