"""Clocks of the lab: how many events fit into a time, by any clock."""

from __future__ import annotations

from whimbrel.lab.measure.timing import affordable


class Clock:
    """A clock that runs take forward, and that jumps once, as wall time does on a busy machine."""

    def __init__(self, jump: float) -> None:
        self.now, self.jump, self.asked = 0.0, jump, list[int]()

    def run(self, count: int) -> None:
        self.asked.append(count)
        self.now += 0.001 * count + self.jump
        self.jump = 0.0


def test_as_many_events_as_fit_into_the_time() -> None:
    clock = Clock(0.0)
    assert 150 <= affordable(clock.run, 10_000, 0.25, clock=lambda: clock.now) <= 250
    assert affordable(clock.run, 20, 0.25, clock=lambda: clock.now) == 20


def test_the_first_run_is_not_part_of_the_estimate() -> None:
    clock = Clock(5.0)
    assert affordable(clock.run, 10_000, 0.25, clock=lambda: clock.now) >= 150


def test_few_events_tell_the_fixed_cost_and_the_first_trial_has_a_size() -> None:
    clock = Clock(0.0)

    def cut(most: int, seconds: float) -> int:
        return affordable(clock.run, most, seconds, few=2, first=50, clock=lambda: clock.now)

    assert cut(400, 10.0) == 400 and clock.asked[:3] == [2, 2, 50]
    assert cut(30, 10.0) == 30
    assert cut(400, 0.0) == 50
    assert affordable(clock.run, 500, 0.0, clock=lambda: clock.now) == 1
