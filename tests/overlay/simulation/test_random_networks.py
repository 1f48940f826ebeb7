from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.overlay.simulation.random_networks import Plan, check_plan, random_plan
from tests.strategies import events, filters
from whimbrel.overlay.simulation.network import Faults


@pytest.mark.parametrize("block", range(4))
def test_random_networks_lose_nothing(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        try:
            check_plan(random_plan(seed))
        except AssertionError as error:
            raise AssertionError(f"network {seed}: {error}") from error


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 2), filters, st.booleans()), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 2), events()), min_size=1, max_size=3),
    st.booleans(),
    st.integers(0, 100),
)
def test_any_filters_and_events(
    subscriptions: list[tuple[int, object, bool]],
    published: list[tuple[int, dict[str, object]]],
    faulty: bool,
    seed: int,
) -> None:
    plan = random_plan(seed)
    plan.routers, plan.parents, plan.joins = 3, [0, 1], {}
    plan.subscriptions = [
        (0.1 * place, router, str(filter), 1.0 if ends else None)
        for place, (router, filter, ends) in enumerate(subscriptions)
    ]
    plan.events = [(0.2 + 0.3 * place, router, event) for place, (router, event) in enumerate(published)]
    plan.optimizers = [(0.0, 0)]
    plan.faults = Faults(0.2, ((0.2, 0.6, "r0", "r1"),), ((0.4, 0.9, "r2"),)) if faulty else Faults()
    check_plan(plan)


@pytest.mark.soak
def test_many_more_random_networks() -> None:
    for seed in range(400, 20_000):
        check_plan(random_plan(seed))


def test_a_network_can_be_repeated() -> None:
    first, second = (check_plan(random_plan(7)) for _ in range(2))
    assert [event.handled for event in first.history.events] == [event.handled for event in second.history.events]
    assert isinstance(random_plan(7), Plan)
