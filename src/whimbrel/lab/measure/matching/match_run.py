"""The whole run: workload after workload, each in fields of competitors, then what belongs to no workload."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from whimbrel.lab.measure import machine
from whimbrel.lab.measure.matching import verdicts
from whimbrel.lab.measure.matching.cases import MatchCase, Scale
from whimbrel.lab.measure.matching.engine import TEXT_SAMPLE, Engine, batches, build, singles, speed_up, warm_up
from whimbrel.lab.measure.matching.folder import Benchmarks
from whimbrel.lab.measure.matching.process_start import starts
from whimbrel.lab.measure.matching.race import Race, run_race
from whimbrel.lab.measure.matching.rival import Rival
from whimbrel.lab.measure.workload_cache import default_folder, workload_of
from whimbrel.lab.workloads import Workload

Progress = Callable[[str], None]


def _no_progress(text: str) -> None:
    pass


@dataclass(frozen=True, slots=True)
class MatchSettings:
    """What to run: workloads (all without a name), groups of rivals, and how thoroughly.

    `seconds` is what one rival may take for matching on one workload, repeats included.
    """

    workloads: tuple[str, ...] = ()
    scale: Scale = "small"
    rivals: tuple[str, ...] = ("naive", "duckdb", "polars", "papers")
    repeat: int = 5
    seconds: float = 20.0
    start: bool = True
    cache: Path = field(default_factory=default_folder)


def run(settings: MatchSettings, progress: Progress = _no_progress) -> dict[str, object]:
    """Measure everything; the result is JSON-ready. `MatchesDiffer` if competitors do not agree."""
    benchmarks = Benchmarks()
    cases = benchmarks.chosen(settings.workloads)
    for case in cases:
        benchmarks.rivals(settings.rivals, case)  # says now, not in an hour, that a name is wrong
    card = machine.card()
    progress("loading compiled code")
    warm_up()
    done = [_run_case(case, settings, benchmarks, _prefixed(progress, case.name)) for case in cases]
    start = None
    if settings.start:
        progress("start: a cold one, which compiles everything, and warm ones")
        found = starts()
        start = {**found, "verdicts": [verdict.to_dict() for verdict in verdicts.of_start(found, benchmarks.aims)]}
    return {
        "machine": {**card, "load_at_end": machine.load()},
        "settings": {
            "scale": settings.scale,
            "rivals": list(settings.rivals),
            "repeat": settings.repeat,
            "seconds": settings.seconds,
        },
        "workloads": done,
        "start": start,
    }


def _prefixed(progress: Progress, name: str) -> Progress:
    return lambda text: progress(f"{name}: {text}")


def _run_case(
    case: MatchCase, settings: MatchSettings, benchmarks: Benchmarks, progress: Progress
) -> dict[str, object]:
    progress("generating or reading the workload")
    parameters = case.parameters(settings.scale)
    workload = workload_of(case.workload, parameters, settings.cache)
    rivals = benchmarks.rivals(settings.rivals, case)
    fields, engine = _main_field(case, workload, settings, rivals, progress)
    for size in sorted({rival.most for rival in rivals if _is_apart(rival, workload)}, reverse=True):  # type: ignore[type-var]
        assert size is not None
        fields.append(_field_apart(case, workload, settings, size, rivals, progress))
    found = verdicts.of_case(case, fields, engine, benchmarks.aims) if settings.scale == "full" else []
    target, peer = case.target, case.peer
    gc.collect()
    return {
        "name": case.name,
        "workload": case.workload,
        "parameters": parameters,
        "expected_matches": case.matches,
        "target": target and {"events_per_second": target.events_per_second, "times_naive": target.times_naive},
        "peer": peer and {"name": peer.name, "us_per_event": peer.us_per_event, "remark": peer.remark},
        "engine": engine,
        "fields": [field.to_dict() for field in fields],
        "verdicts": [verdict.to_dict() for verdict in found],
    }


def _is_apart(rival: Rival, workload: Workload) -> bool:
    """Whether a rival is given fewer subscriptions than there are."""
    return rival.most is not None and rival.most < workload.subscriptions.num_rows


def _main_field(
    case: MatchCase, workload: Workload, settings: MatchSettings, rivals: Sequence[Rival], progress: Progress
) -> tuple[list[Race], dict[str, object]]:
    """All subscriptions: the engine's own figures, and the rivals that take so many."""
    table, events = workload.subscriptions, workload.events
    progress("loading a sample from text on one core")
    _, on_one = build(table.slice(0, TEXT_SAMPLE), False, progress)
    progress("loading all from text on all cores")
    index, on_both = build(table, True, progress)
    engines = [Engine(index)]
    if (os.cpu_count() or 1) > 1:
        engines.append(Engine(index, os.cpu_count() or 1))
    here = [rival for rival in rivals if not _is_apart(rival, workload)]
    field = run_race(case.name, table, events, engines, here, settings.repeat, settings.seconds, progress)
    _close(here)
    progress("match_batch")
    batch = batches(index, events, field.matches_per_event, settings.repeat)
    progress("single events")
    stats = index.stats()
    times = [entry.match for entry in field.entries[: len(engines)]]
    engine = {
        "build": {
            "from_text_per_second": on_one.to_dict()["from_text_per_second"],
            "from_text_subscriptions": on_one.subscriptions,
            "from_text_both_cores_per_second": _rate_on_both(on_both.cores, on_both.to_dict()),
            "from_columns_per_second": on_both.to_dict()["from_columns_per_second"],
            "whole": on_both.to_dict(),
        },
        "batch": batch,
        "single": singles(index, events),
        "both_cores": speed_up(*times) if len(times) > 1 else None,
        "bytes_per_subscription": round(float(str(stats["bytes_per_subscription"])), 1),
        "text_bytes_per_subscription": round(int(str(stats["text_bytes"])) / table.num_rows, 1),
        "stats": stats,
    }
    return [field], engine


def _rate_on_both(cores: int, whole: dict[str, object]) -> object:
    """The rate on both cores; None where there is only one, or the load was too small for a second."""
    return whole["from_text_per_second"] if cores > 1 else None


def _field_apart(
    case: MatchCase, workload: Workload, settings: MatchSettings, size: int, rivals: Sequence[Rival], progress: Progress
) -> Race:
    """The first `size` subscriptions: the engine, and the rivals that are given so many."""
    table = workload.subscriptions.slice(0, size)
    progress(f"loading {size:,} for those that are given no more")
    index, _ = build(table, True, progress)
    those = [rival for rival in rivals if rival.most == size]
    field = run_race(
        case.name, table, workload.events, [Engine(index)], those, settings.repeat, settings.seconds, progress
    )
    _close(those)
    return field


def _close(rivals: Sequence[Rival]) -> None:
    for rival in rivals:
        rival.close()
    gc.collect()
