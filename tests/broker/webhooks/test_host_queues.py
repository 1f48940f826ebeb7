"""Hosts take turns, and a bad one gets a small share."""

from __future__ import annotations

from whimbrel.broker.webhooks.host_queues import PER_HOST, HostQueues


def test_hosts_take_turns() -> None:
    queues: HostQueues[int] = HostQueues()
    for number in range(6):
        queues.push("many", number)
    queues.push("few", 10)
    queues.push("other", 20)
    popped = [found[1] for _ in range(4) if (found := queues.pop())]
    assert popped == [0, 10, 20, 1]


def test_a_host_has_at_most_its_share() -> None:
    queues: HostQueues[int] = HostQueues()
    for number in range(PER_HOST + 5):
        queues.push("h", number)
    assert sum(queues.pop() is not None for _ in range(PER_HOST + 5)) == PER_HOST
    queues.done("h", True)
    assert queues.pop() is not None and queues.pop() is None


def test_a_bad_host_soon_has_one_at_a_time_and_recovers() -> None:
    queues: HostQueues[int] = HostQueues()
    for number in range(200):
        queues.push("bad", number)
    running = 0
    while queues.pop() is not None:
        running += 1
    assert running == PER_HOST
    for _ in range(running):
        queues.done("bad", False)
    assert queues.pop() is not None and queues.pop() is None
    queues.done("bad", True)
    assert queues.pop() is not None and queues.pop() is not None and queues.pop() is None
    queues.push("good", 1)
    assert queues.pop() == ("good", 1)
