"""Which targets of matching are met: those of a workload, the claims about competitors, and the start of a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whimbrel.lab.measure.matching.cases import MatchCase, MatchTargets
from whimbrel.lab.measure.matching.race import Race
from whimbrel.lab.measure.results import Verdict

NAIVE = "compiled naive"


def case_verdicts(
    case: MatchCase, races: list[Race], engine: Mapping[str, Any], targets: MatchTargets
) -> list[Verdict]:
    """The verdicts of one workload at full size."""
    main = races[0]
    us = main.competitors[0].us
    assert us is not None
    naive = main.competitor(NAIVE)
    build, single = engine["build"], engine["single"]
    found = []
    if case.target is not None:
        times_naive = round((naive.us or 0) / us, 1) if naive else None
        found.append(Verdict("events/s", case.target.events_per_second, round(1e6 / us)))
        found.append(Verdict("times compiled naive", case.target.times_naive, times_naive))
    found += [
        Verdict("match_batch, times match_blocks", targets.batch_ratio, engine["batch"]["times_blocks"], least=False),
        Verdict("both cores, times one", targets.both_cores, engine["both_cores"]),
        Verdict("subscriptions/s from columns", targets.columnar_per_second, build["from_columns_per_second"]),
        Verdict("subscriptions/s from text, one core", targets.text_per_second, build["from_text_per_second"]),
        Verdict(
            "subscriptions/s from text, two cores",
            targets.text_both_cores_per_second,
            build["from_text_both_cores_per_second"],
        ),
    ]
    if case.name in targets.bytes_on:
        per_subscription = engine["bytes_per_subscription"]
        found.append(Verdict("bytes per subscription", targets.bytes_per_subscription, per_subscription, least=False))
    if case.name in targets.single_on:
        found.append(Verdict("single event, median us", targets.single_us, single["median_us"], least=False))
        outside = Verdict(
            "single event, share outside the kernel", targets.single_outside, single["outside_kernel"], False
        )
        found.append(outside)
    return found + _claims(case, races, targets)


def start_verdicts(start: Mapping[str, Any], targets: MatchTargets) -> list[Verdict]:
    """The verdicts of the start of a process."""
    return [
        Verdict("cold start, seconds", targets.cold_seconds, start["cold"]["seconds"], least=False),
        Verdict("warm start, seconds", targets.warm_seconds, start["warm"]["seconds"], least=False),
    ]


def _claims(case: MatchCase, races: list[Race], targets: MatchTargets) -> list[Verdict]:
    """The claims about two competitors, judged in the first race where both were measured."""
    found = []
    for claim in targets.claims:
        if claim.workload != case.name:
            continue
        for race in races:
            faster, slower = race.competitor(claim.faster), race.competitor(claim.slower)
            if faster is not None and slower is not None:
                ratio = (slower.us or 0) / (faster.us or 1)
                what = f"{claim.slower}, times {claim.faster}, at {race.subscriptions:,}"
                found.append(Verdict(what, round(claim.times, 3), round(ratio, 3)))
                break
    return found
