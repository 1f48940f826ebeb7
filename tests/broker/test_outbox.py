"""Outboxes are bounded in messages and bytes, and each policy does what its name says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from whimbrel.broker.delivery.outbox import Outbox, Policy


def inside(work: Callable[[], None]) -> None:
    async def main() -> None:
        work()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("policy", "kept", "dropped"), [("drop-oldest", [7, 8, 9], 7), ("drop-newest", [0, 1, 2], 7), ("spill", [], 0)]
)
def test_a_full_outbox(policy: Policy, kept: list[int], dropped: int) -> None:
    def work() -> None:
        outbox = Outbox(policy, "sse", messages=3)
        for offset in range(10):
            outbox.push(offset, b"x")
        assert (outbox.dropped, outbox.spilled) == (dropped, policy == "spill")
        assert [offset for offset, _ in outbox.take()] == kept
        assert len(outbox) == outbox.waiting_bytes == 0

    inside(work)


def test_bytes_are_bounded_and_one_large_message_still_passes() -> None:
    def work() -> None:
        outbox = Outbox("drop-oldest", "sse", size=10)
        outbox.push(0, b"x" * 100)
        assert [offset for offset, _ in outbox.take()] == [0]
        for offset in range(1, 9):
            outbox.push(offset, b"xxxx")
        assert outbox.waiting_bytes == 8 and outbox.dropped == 6
        assert [offset for offset, _ in outbox.take(1)] == [7]
        assert outbox.waiting_bytes == 4

    inside(work)


def test_what_is_taken_is_bounded_in_bytes() -> None:
    def work() -> None:
        outbox = Outbox("spill", "sse")
        for offset in range(9):
            outbox.push(offset, b"x" * 10)
        assert [offset for offset, _ in outbox.take(size=25)] == [0, 1, 2]
        assert [offset for offset, _ in outbox.take(size=10)] == [3]
        assert [offset for offset, _ in outbox.take(size=1)] == [4] and outbox.waiting_bytes == 40
        assert [offset for offset, _ in outbox.take(size=40)] == [5, 6, 7, 8] and outbox.waiting_bytes == 0

    inside(work)


def test_a_slow_consumer_is_disconnected_if_it_asked_for_that() -> None:
    def work() -> None:
        outbox = Outbox("disconnect", "sse", messages=2)
        for offset in range(3):
            outbox.push(offset, b"x")
        assert outbox.closed == "slow-consumer" and outbox.take() == [] and outbox.dropped == 3

    inside(work)


def test_waiting_ends_with_a_message_or_the_end() -> None:
    async def main() -> None:
        outbox = Outbox("spill", "sse")
        assert not await outbox.wait(0.01)
        asyncio.get_running_loop().call_later(0.01, outbox.push, 1, b"x")
        assert await outbox.wait(20)
        outbox.take()
        assert not await outbox.wait(0.01)
        asyncio.get_running_loop().call_later(0.01, outbox.close, "gone")
        assert await outbox.wait(20)

    asyncio.run(main())
