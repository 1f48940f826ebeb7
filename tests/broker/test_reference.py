"""Random steps with restarts: everybody gets what the reference evaluator says."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.inside import event, ids_of, publish, replace, subscribe
from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import ANYBODY
from whimbrel.model.filter import Filter

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.lists(st.integers(0, 9), min_size=1, max_size=6)),
        st.tuples(st.just("create"), st.integers(0, 9)),
        st.tuples(st.just("replace"), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("reopen"), st.sampled_from(["kept", "index", "matches", "ids", "broker.sqlite"])),
    ),
    max_size=12,
)


@settings(max_examples=8)
@given(STEPS)
def test_everybody_gets_what_the_reference_says(steps: list[tuple[str, Any]]) -> None:
    check(steps)


@pytest.mark.soak
@settings(max_examples=500, deadline=None)
@given(STEPS)
def test_many_more_steps(steps: list[tuple[str, Any]]) -> None:
    check(steps)


def check(steps: list[tuple[str, Any]]) -> None:
    """Publish, change and reopen in any order, with derived files lost: messages are those of Filter.matches."""
    with TemporaryDirectory() as directory:
        asyncio.run(_follow(steps, Path(directory)))


async def _follow(steps: list[tuple[str, Any]], directory: Path) -> None:
    chance = random.Random(1)
    expected: dict[str, list[str]] = {}
    filters: dict[str, Filter] = {}
    number = 0
    broker = await Broker(Settings(data=str(directory))).__aenter__()
    for step, value in steps:
        if step == "publish":
            for n in value:
                data = {"n": n}
                await publish(broker, event(number, data=data))
                for id, filter in filters.items():
                    if filter.matches({"data": data}):
                        expected[id].append(str(number))
                number += 1
        elif step == "create":
            held = await subscribe(broker, f"data.n < {value}")
            expected[held.id], filters[held.id] = [], Filter.parse(f"data.n < {value}")
        elif step == "reopen":
            await broker.__aexit__()
            if value != "kept":
                for path in directory.glob(f"{value}*"):
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
            broker = await Broker(Settings(data=str(directory))).__aenter__()
        elif filters:
            id = chance.choice(sorted(filters))
            if step == "replace":
                await replace(broker, id, f"data.n >= {value}")
                filters[id] = Filter.parse(f"data.n >= {value}")
            else:
                await broker.subscriptions.delete(id, ANYBODY)
                del expected[id], filters[id]
    for id, ids in expected.items():
        assert await ids_of(broker, broker.subscriptions.find(id, ANYBODY)) == ids
    broker.index._check()
    assert len(broker.index) == len(filters) == len(broker.store.subscriptions("", 1 << 62))
    assert len(filters) == broker.store.count_subscriptions(ANYBODY.name)  # kept beside, change by change
    await broker.__aexit__()
