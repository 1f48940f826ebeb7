"""The whole run of the matching benchmark: one workload after the other, the start of a process, the verdicts."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from whimbrel.lab.measure import machine
from whimbrel.lab.measure.benchmark_results import BenchSettings, Progress, Verdict, check_names, no_progress
from whimbrel.lab.measure.matching import cases
from whimbrel.lab.measure.matching.cases import MatchCase
from whimbrel.lab.measure.matching.engine_rival import (
    TEXT_SAMPLE,
    Engine,
    batches,
    build,
    match_one_by_one,
    stats_of,
    warm_up,
)
from whimbrel.lab.measure.matching.process_start import starts
from whimbrel.lab.measure.matching.race import Race, run_race
from whimbrel.lab.measure.matching.rival import Rival, RivalMaker
from whimbrel.lab.measure.workload_cache import workload_of
from whimbrel.lab.workloads import Workload


def run(
    settings: BenchSettings, rivals: Mapping[str, RivalMaker], progress: Progress = no_progress
) -> dict[str, object]:
    """Measure everything and return JSON-ready data; `rivals` makes the rivals of each group that may be named.

    Raises `UnknownName` before anything is measured, and `MatchesDiffer` if competitors do not agree.
    """
    chosen = cases.chosen_cases(settings.names)
    check_names("rivals", settings.rivals, rivals)
    card = machine.card()
    progress("loading compiled code")
    warm_up()
    makers = [rivals[name] for name in dict.fromkeys(settings.rivals)]
    done = [_run_case(case, settings, makers, lambda text, c=case: progress(f"{c.name}: {text}")) for case in chosen]  # type: ignore[misc]
    start = None
    if settings.start:
        progress("start: a cold one, which compiles everything, and warm ones")
        found: Any = starts()
        verdicts = [
            Verdict("cold start, seconds", cases.COLD_SECONDS, found["cold"]["seconds"], least=False),
            Verdict("warm start, seconds", cases.WARM_SECONDS, found["warm"]["seconds"], least=False),
        ]
        start = {**found, "verdicts": [verdict.to_dict() for verdict in verdicts]}
    return {
        "machine": {**card, "load_at_end": machine.load()},
        "settings": settings.to_dict(),
        "workloads": done,
        "start": start,
    }


def _run_case(
    case: MatchCase, settings: BenchSettings, makers: Sequence[RivalMaker], progress: Progress
) -> dict[str, object]:
    progress("generating or reading the workload")
    parameters = case.parameters(settings.scale)
    workload = workload_of(case.workload, parameters, settings.cache)
    rivals = [rival for maker in makers for rival in maker(case)]
    main, engine = _main_race(case, workload, settings, rivals, progress)
    races = [main]
    for size in sorted({rival.most for rival in rivals if _is_apart(rival, workload)}, reverse=True):  # type: ignore[type-var]
        assert size is not None
        table = workload.subscriptions.slice(0, size)
        progress(f"loading {size:,} for rivals that are given no more")
        engines = [Engine(build(table, True, progress)[0])]
        here = [rival for rival in rivals if rival.most == size]
        time = settings.repeat, settings.seconds
        races.append(run_race(case.name, table, workload.events, engines, here, *time, progress))
    found = _case_verdicts(case, races, engine) if settings.scale == "full" else []
    gc.collect()
    return {
        "name": case.name,
        "workload": case.workload,
        "parameters": parameters,
        "expected_matches": case.matches,
        "target": case.target and asdict(case.target),
        "peer": case.peer and asdict(case.peer),
        "engine": engine,
        "fields": [race.to_dict() for race in races],
        "verdicts": [verdict.to_dict() for verdict in found],
    }


def _is_apart(rival: Rival, workload: Workload) -> bool:
    """Whether a rival is given fewer subscriptions than the workload has."""
    return rival.most is not None and rival.most < workload.subscriptions.num_rows


def _main_race(
    case: MatchCase, workload: Workload, settings: BenchSettings, rivals: Sequence[Rival], progress: Progress
) -> tuple[Race, dict[str, object]]:
    """Run the race over all subscriptions. Return it with the figures of the engine alone."""
    table, events = workload.subscriptions, workload.events
    progress("loading a sample from text on one core")
    _, on_one = build(table.slice(0, TEXT_SAMPLE), False, progress)
    progress("loading all from text on all cores")
    index, on_both = build(table, True, progress)
    engines = [Engine(index)]
    if (os.cpu_count() or 1) > 1:
        engines.append(Engine(index, os.cpu_count() or 1))
    here = [rival for rival in rivals if not _is_apart(rival, workload)]
    race = run_race(case.name, table, events, engines, here, settings.repeat, settings.seconds, progress)
    progress("match_batch")
    batch = batches(index, events, race.matches_per_event, settings.repeat)
    progress("single events")
    stats = stats_of(index)
    whole = on_both.to_dict()
    one, *both = (competitor.match.median_wall for competitor in race.competitors[: len(engines)])
    engine = {
        "build": {
            "from_text_per_second": on_one.to_dict()["from_text_per_second"],
            "from_text_subscriptions": on_one.subscriptions,
            "from_text_both_cores_per_second": whole["from_text_per_second"] if on_both.cores > 1 else None,
            "from_columns_per_second": whole["from_columns_per_second"],
            "whole": whole,
        },
        "batch": batch,
        "single": match_one_by_one(index, events),
        "both_cores": round(one / both[0], 3) if both else None,
        "bytes_per_subscription": round(stats.bytes_per_subscription, 1),
        "text_bytes_per_subscription": round(stats.text_bytes / table.num_rows, 1),
        "stats": stats.to_dict(),
    }
    return race, engine


def _case_verdicts(case: MatchCase, races: list[Race], engine: Mapping[str, Any]) -> list[Verdict]:
    """The verdicts of one workload at full size."""
    main = races[0]
    us = main.competitors[0].us
    assert us is not None
    naive = main.competitor("compiled naive")
    build, single = engine["build"], engine["single"]
    found = []
    if case.target is not None:
        times_naive = round((naive.us or 0) / us, 1) if naive else None
        found.append(Verdict("events/s", case.target.events_per_second, round(1e6 / us)))
        found.append(Verdict("times compiled naive", case.target.times_naive, times_naive))
    found += [
        Verdict("match_batch, times match_blocks", cases.BATCH_RATIO, engine["batch"]["times_blocks"], least=False),
        Verdict("both cores, times one", cases.BOTH_CORES, engine["both_cores"]),
        Verdict("subscriptions/s from columns", cases.COLUMNAR_PER_SECOND, build["from_columns_per_second"]),
        Verdict("subscriptions/s from text, one core", cases.TEXT_PER_SECOND, build["from_text_per_second"]),
        Verdict(
            "subscriptions/s from text, two cores",
            cases.TEXT_BOTH_CORES_PER_SECOND,
            build["from_text_both_cores_per_second"],
        ),
    ]
    if case.name in cases.BYTES_ON:
        per_subscription = engine["bytes_per_subscription"]
        found.append(Verdict("bytes per subscription", cases.BYTES_PER_SUBSCRIPTION, per_subscription, least=False))
    if case.name in cases.SINGLE_ON:
        found.append(Verdict("single event, median us", cases.SINGLE_US, single["median_us"], least=False))
        what = "single event, share outside the kernel"
        found.append(Verdict(what, cases.SINGLE_OUTSIDE, single["outside_kernel"], least=False))
    return found + _claims(case, races)


def _claims(case: MatchCase, races: list[Race]) -> list[Verdict]:
    """The claims about two competitors, judged in the first race where both were measured."""
    found = []
    for claim in cases.CLAIMS:
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
