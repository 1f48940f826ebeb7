"""The feed of the live page."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic

import msgspec
import numpy as np

from tests.broker.inside import event, opened, publish, run, subscribe
from whimbrel.broker.page.live_feed import LOOK_SECONDS, FeedSample, LiveFeed
from whimbrel.broker.sequencing.request_group import LivePairs


def test_a_viewer_is_told_rates_events_and_subscriptions(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            cheap = await subscribe(broker, "data.price < 5")
            await subscribe(broker, "data.price < 4")
            feed = broker.feed.follow()
            msgspec.json.decode(await anext(feed), type=list[FeedSample])
            publishing = asyncio.create_task(
                publish(broker, event(1, data={"price": 4}), event(2, data={"price": 9}))
            )  # while the feed is read, so that no second is missed
            seconds = [msgspec.json.decode(await anext(feed))]
            while not (seconds[-1]["busiest"] and sum(second["sample"]["published"] for second in seconds)):
                seconds.append(msgspec.json.decode(await anext(feed)))
            tail = [one for second in seconds for one in second["tail"]]
            assert [(one["matches"], one["subscriptions"]) for one in tail] == [(1, [cheap.id])]
            assert [one["id"] for one in seconds[-1]["busiest"]] == [cheap.id]
            await publishing
            await feed.aclose()

    run(work)


def test_a_feed_that_is_closed_ends_what_follows_it(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            feed = broker.feed.follow()
            await anext(feed)
            waiting = asyncio.create_task(anext(feed, b"the end"))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            broker.feed.close()
            assert await waiting == b"the end"

    run(work)


def test_many_groups_are_looked_at_a_few_times_and_stand_for_all(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            own = await subscribe(broker, "TRUE")
            feed = LiveFeed(broker._counts, broker.store)
            feed.start()
            following = feed.follow()
            await anext(following)
            await asyncio.sleep(0)  # the first second begins
            pairs = LivePairs({7: b"{}"}, {}, np.array([own.number]), np.array([7]))
            until = monotonic() + 5 * LOOK_SECONDS
            while monotonic() < until:
                feed.observe(pairs)
            second = msgspec.json.decode(await anext(following))
            matched = second["sample"]["matched"]
            assert matched > 100
            assert 0.1 * matched < second["busiest"][0]["rate"] <= 0.21 * matched, "a fifth in the first second"
            assert len(second["tail"]) <= 20
            await following.aclose()
            await feed.stop()

    run(work)
