"""Targets and what came of them: met, missed, or not measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from whimbrel.lab.measure.matching.cases import MatchCase, MatchTargets
from whimbrel.lab.measure.matching.race import Race

NAIVE = "compiled naive"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target, what was measured, and whether that meets it; None if there is nothing to compare."""

    what: str
    target: float
    measured: float | None
    least: bool = True

    @property
    def met(self) -> bool | None:
        """Whether the target is met."""
        if self.measured is None:
            return None
        return self.measured >= self.target if self.least else self.measured <= self.target

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        return {**asdict(self), "met": self.met}


def of_case(case: MatchCase, fields: list[Race], engine: Mapping[str, Any], aims: MatchTargets) -> list[Verdict]:
    """The verdicts of one workload at full size."""
    main = fields[0]
    us = main.entries[0].us
    assert us is not None
    naive = main.entry(NAIVE)
    build, single = engine["build"], engine["single"]
    found = []
    if case.target is not None:
        times_naive = round((naive.us or 0) / us, 1) if naive else None
        found.append(Verdict("events/s", case.target.events_per_second, round(1e6 / us)))
        found.append(Verdict("times compiled naive", case.target.times_naive, times_naive))
    found += [
        Verdict("match_batch, times match_blocks", aims.batch_ratio, engine["batch"]["times_blocks"], least=False),
        Verdict("both cores, times one", aims.both_cores, engine["both_cores"]),
        Verdict("subscriptions/s from columns", aims.columnar_per_second, build["from_columns_per_second"]),
        Verdict("subscriptions/s from text, one core", aims.text_per_second, build["from_text_per_second"]),
        Verdict(
            "subscriptions/s from text, two cores",
            aims.text_both_cores_per_second,
            build["from_text_both_cores_per_second"],
        ),
    ]
    if case.name in aims.bytes_on:
        per_subscription = engine["bytes_per_subscription"]
        found.append(Verdict("bytes per subscription", aims.bytes_per_subscription, per_subscription, least=False))
    if case.name in aims.single_on:
        found.append(Verdict("single event, median us", aims.single_us, single["median_us"], least=False))
        outside = Verdict(
            "single event, share outside the kernel", aims.single_outside, single["outside_kernel"], False
        )
        found.append(outside)
    return found + _claims(case, fields, aims)


def of_start(start: Mapping[str, Any], aims: MatchTargets) -> list[Verdict]:
    """The verdicts of the start of a process."""
    return [
        Verdict("cold start, seconds", aims.cold_seconds, start["cold"]["seconds"], least=False),
        Verdict("warm start, seconds", aims.warm_seconds, start["warm"]["seconds"], least=False),
    ]


def _claims(case: MatchCase, fields: list[Race], aims: MatchTargets) -> list[Verdict]:
    """What is claimed of two competitors, in the first field where both were measured."""
    found = []
    for claim in aims.claims:
        if claim.workload != case.name:
            continue
        for field in fields:
            faster, slower = field.entry(claim.faster), field.entry(claim.slower)
            if faster is not None and slower is not None:
                ratio = (slower.us or 0) / (faster.us or 1)
                what = f"{claim.slower}, times {claim.faster}, at {field.subscriptions:,}"
                found.append(Verdict(what, round(claim.times, 3), round(ratio, 3)))
                break
    return found
