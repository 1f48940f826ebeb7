"""A log that tests truncate where they want."""

from __future__ import annotations

import asyncio

import pytest

from tests.broker.inside import event, publish
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service import retention, upkeep
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.retention import Retention


class Target:
    """The floor that retention is to reach, in the place of what the settings ask for."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.wanted = 0
        patch.setattr(upkeep, "_ROUND_SECONDS", 0.01)
        patch.setattr(retention, "ROUND_SECONDS", 0.0)
        patch.setattr(Retention, "_wanted", lambda _, floor, end: max(floor, min(self.wanted, end)))

    async def reach(self, broker: Broker, floor: int) -> None:
        self.wanted = floor
        while broker.log.floor < floor or broker._opened.lists.floor < floor:
            assert broker.failure is None
            await asyncio.sleep(0.01)


async def publish_numbers(broker: Broker, first: int, count: int) -> list[int]:
    results = await publish(broker, *(event(n, data={"n": n}) for n in range(first, first + count)))
    return [result.offset for result in results if isinstance(result, Published)]
