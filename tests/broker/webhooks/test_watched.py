"""Which subscriptions with a sink have something to deliver."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broker.inside import run
from tests.broker.test_publications import subscribe, update
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.store import Cursor
from whimbrel.broker.webhooks.watched import WatchedNumbers, lagging_subscriptions

NUMBERS = st.lists(st.integers(0, 40))


@given(NUMBERS, st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5))
def test_the_watched_ones_are_found(first: list[int], steps: list[tuple[list[int], list[int]]]) -> None:
    watched, expected = WatchedNumbers(set(first)), set(first)
    for added, asked in steps:
        for number in added:
            watched.add(number)
            expected.add(number)
        assert watched.among(np.array(asked, np.int64)) == sorted(expected & set(asked))


@pytest.mark.parametrize(("part", "is_lagging"), [("nothing", True), (0, True), (1, True), (None, False)])
def test_a_start_finds_what_the_entry_of_a_subscription_told_it(
    tmp_path: Path, part: str | int | None, is_lagging: bool
) -> None:
    """Publications that match a new subscription are messages of its own entry; a part of them was delivered."""

    async def work() -> None:
        async with Broker(Settings(data=str(tmp_path)), serve=False) as broker:
            await update(broker, *((key, "put", {"x": 1}) for key in "abc"))
            held = await subscribe(broker, filter="x = 1", protocol="HTTP", sink="https://receiver.example/")
            if part != "nothing":
                broker.store.acknowledge(held.id, Cursor(held.number, part))  # type: ignore[arg-type]
            found = lagging_subscriptions(broker.store.webhooks, broker._opened.lists)
            assert found == ([held.id] if is_lagging else [])

    run(work)
