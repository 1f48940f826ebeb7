"""How fast subject spaces are: the workload of the paper (docs/papers.md, section 20), and geofences.

The paper: 50 dimensions; publications are points in 0..99 with 20 constraints to insert, 25 to update, all of which
change; subscriptions have 2 constraints of width 10 (AMB-20a: the paper does not give widths). Geofences: moving points
and squares that hold about ten points each.

Times are CPU time from the call to its arrays of notifications, names not looked up; medians of repeats in turns with
the rival, a compiled scan of all subscriptions. Bias: all in one process, keys are integers, and the paper's machine
was a Pentium III. The scan gets the same bounds, laid out by rows, and one thread; it does not look up keys, make
notifications, or keep anything up to date.
"""

from __future__ import annotations

import resource
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whimbrel.compiled.jit import kernel
from whimbrel.lab.measure.benchmark_results import Progress, Verdict, no_progress, report
from whimbrel.lab.measure.machine import card
from whimbrel.lab.measure.timing import Times
from whimbrel.lab.workloads.regions import DIMENSIONS, filled, moved, point_of, points, region
from whimbrel.model.errors import WhimbrelError
from whimbrel.spaces import Columns, SubjectSpaces
from whimbrel.spaces.index.region_arrays import HIGH, LOW, Regions
from whimbrel.spaces.state.notifications import ENTER


@dataclass(frozen=True, slots=True)
class SpacesSizes:
    """The sizes of one run: publications and subscriptions, geofences, updates of a batch, single updates, repeats."""

    members: int
    fences: int
    batch: int
    single_updates: int
    repeat: int


SMALL = SpacesSizes(members=10_000, fences=50_000, batch=1_000, single_updates=100, repeat=3)
FULL = SpacesSizes(members=100_000, fences=1_000_000, batch=1_000, single_updates=200, repeat=5)


@dataclass(frozen=True, slots=True)
class OperationTimes:
    """One measurement, in microseconds per operation."""

    what: str
    notifications: float
    us: float
    lowest: float
    highest: float
    scan_us: float | None = None


class AnswersDiffer(WhimbrelError):
    """The scan found other subscriptions than subject spaces."""


def run(sizes: SpacesSizes, progress: Progress = no_progress) -> dict[str, Any]:
    """Measure everything and return JSON-ready data with the machine card."""
    machine = card()
    paper, linear, verdicts = _paper(sizes, progress)
    fences, more = _geofences(sizes, progress)
    tables = {"paper": [asdict(row) for row in paper], "geofences": [asdict(row) for row in fences]}
    return report(machine, verdicts + more, sizes=asdict(sizes), linear=linear, memory_gb=_memory_gb(), **tables)


def _memory_gb() -> float:
    """The most memory that this process has had."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)


class _Bench:
    """Subject spaces, and the stored regions that the scan needs."""

    def __init__(self, spaces: SubjectSpaces, dimensions: int) -> None:
        self.spaces = spaces
        self.dimensions = dimensions
        state = spaces._state
        self.publications = state.publications
        members = state.subscriptions
        self.stored = members.regions.read(np.arange(members.regions.row_count, dtype=np.int32))

    def read(self, keys: list[int]) -> Regions:
        """The regions of publications."""
        return self.publications.read_singles(np.array([self.publications.find(key) for key in keys], np.int32))

    def scan(self, before: Regions, after: Regions) -> int:
        """Scan all stored regions. Return how many match now and did not before."""
        return len(_scan(self.stored, before, after, self.dimensions)[1])

    def one_by_one(self, what: str, changes: list[tuple[int, dict[str, float]]], added: bool = False) -> OperationTimes:
        """Time one call per change, and the scan for the first of them."""
        keys = [key for key, _ in changes]
        before = Regions.none(len(keys)) if added else self.read(keys)
        times, found = Times(), []
        for key, at in changes:
            if added:
                told = times.of(lambda k=key, r=at: self.spaces.publish(k, [r]))  # type: ignore[misc]
            else:
                told = times.of(lambda k=key, r=at: self.spaces.update_publication(k, r))  # type: ignore[misc]
            found.append(int(np.count_nonzero(told.kinds == ENTER)))
        after = self.read(keys)
        rival, few = Times(), min(len(keys), 20)
        self.scan(before.part(0, 1), after.part(0, 1))
        for place in range(few):
            parts = before.part(place, place + 1), after.part(place, place + 1)
            count = rival.of(lambda parts=parts: self.scan(*parts))  # type: ignore[misc]
            if count != found[place]:
                raise AnswersDiffer(f"{what}: the scan found {count} subscriptions, subject spaces {found[place]}")
        return _row(what, times, float(np.mean(found)), 1, rival.median_cpu * 1e6)

    def batches(self, what: str, batches: list[Any], size: int) -> OperationTimes:
        """Time one call per batch."""
        times, found = Times(), 0
        for batch in batches:
            found += len(times.of(lambda b=batch: self.spaces.update_many(b)))  # type: ignore[misc]
        return _row(what, times, found / size / len(batches), size)


def _row(what: str, times: Times, notifications: float, per: int, scan_us: float | None = None) -> OperationTimes:
    us = [seconds * 1e6 / per for seconds in times.cpu]
    return OperationTimes(what, round(notifications, 2), float(np.median(us)), min(us), max(us), scan_us)


def _paper(sizes: SpacesSizes, progress: Progress) -> tuple[list[OperationTimes], dict[str, Any], list[Verdict]]:
    rng = np.random.default_rng(20)
    progress("paper: loading")
    spaces = filled(sizes.members, sizes.members, 25, rng)
    bench = _Bench(spaces, DIMENSIONS)
    inserted = points(sizes.single_updates, 20, rng)
    warm = [(-1 - place, region(row)) for place, row in enumerate(points(5, 20, rng))]
    bench.one_by_one("warm", warm, added=True)
    for key, _ in warm:
        spaces.delete_publication(key)

    progress("paper: insert and update")
    rows = [bench.one_by_one("add", [(sizes.members + n, region(row)) for n, row in enumerate(inserted)], added=True)]
    keys = rng.choice(sizes.members, (8, sizes.single_updates))
    rows.append(bench.one_by_one("update, random", _moves(bench, keys[0], None, rng)))
    rows.append(bench.one_by_one("update, +-1", _moves(bench, np.unique(keys[1]), 1, rng)))
    for what, step in (("random", None), ("+-1", 1)):
        batches = []
        for _ in range(sizes.repeat + 1):
            chosen = rng.choice(sizes.members, min(sizes.batch, sizes.members), replace=False)
            batches.append(_moves(bench, chosen, step, rng))
        bench.batches("warm", batches[:1], len(batches[0]))
        rows.append(bench.batches(f"update, {what}, batches of {len(batches[0]):,}", batches[1:], len(batches[0])))

    progress("paper: time by transitions")
    linear = _linear(bench, sizes, rng)
    by_name = {row.what: row for row in rows}
    batched = [row for row in rows if "batches" in row.what]
    verdicts = [
        Verdict("add, ms", 2.0, round(by_name["add"].us / 1e3, 3), least=False),
        Verdict("random update, ms", 1.0, round(by_name["update, random"].us / 1e3, 3), least=False),
        Verdict("+-1 update, ms", 0.2, round(by_name["update, +-1"].us / 1e3, 3), least=False),
        Verdict("random: single, times batched", 3.0, round(by_name["update, random"].us / batched[0].us, 2)),
        Verdict("+-1: single, times batched", 3.0, round(by_name["update, +-1"].us / batched[1].us, 2)),
        Verdict("time by transitions, correlation", 0.9, linear["correlation"]),
    ]
    return rows, linear, verdicts


def _moves(
    bench: _Bench, keys: NDArray[np.int64], step: int | None, rng: np.random.Generator
) -> list[tuple[int, dict[str, float]]]:
    """A new point for each publication: anywhere, or a step away in each dimension."""
    return [(key, moved(point_of(bench.spaces, key), step, rng)) for key in keys.tolist()]


def _linear(bench: _Bench, sizes: SpacesSizes, rng: np.random.Generator) -> dict[str, Any]:
    """Fit the time of an update to its number of transitions, with steps of several lengths."""
    found = []
    for step in (1, 2, 4, 8, 16, 32):
        keys = rng.choice(sizes.members, min(50, sizes.members), replace=False)
        row = bench.one_by_one(f"step {step}", _moves(bench, keys, step, rng))
        found.append({"step": step, "transitions": row.notifications, "us": round(row.us, 1)})
    transitions, us = np.array([f["transitions"] for f in found]), np.array([f["us"] for f in found])
    slope, fixed = np.polyfit(transitions, us, 1)
    return {
        "steps": found,
        "us_per_transition": round(float(slope), 4),
        "us_fixed": round(float(fixed), 1),
        "correlation": round(float(np.corrcoef(transitions, us)[0, 1]), 3),
    }


def _geofences(sizes: SpacesSizes, progress: Progress) -> tuple[list[OperationTimes], list[Verdict]]:
    """Time moving points over squares; a point is in about ten of them."""
    rng = np.random.default_rng(21)
    count = sizes.fences
    side = float(np.sqrt(10 / count))
    spaces = SubjectSpaces()
    spaces.define("map", {"x": "number", "y": "number"})
    progress("geofences: loading")
    corner = rng.random((2, count)) - side / 2
    bounds = {name: (corner[axis], corner[axis] + side) for axis, name in enumerate("xy")}
    spaces.subscribe_many(Columns(range(count), bounds), leave=True, quiet=True)
    at = rng.random((2, count))
    spaces.publish_many(Columns(range(count), {"x": at[0], "y": at[1]}), quiet=True)
    matched = float(np.mean([len(spaces.matches(key)) for key in range(min(500, count))]))
    batch = min(10_000, count // 5)
    bench = _Bench(spaces, 2)
    rows = []
    progress("geofences: moving")
    for what, reach in (("a tenth of a side", side / 10), ("a side", side), ("anywhere", None)):
        batches: list[Any] = []
        for _ in range(sizes.repeat + 1):
            keys = rng.choice(count, batch, replace=False)
            if reach is None:
                at[:, keys] = rng.random((2, batch))
            else:
                at[:, keys] = np.clip(at[:, keys] + rng.uniform(-reach, reach, (2, batch)), 0, 1)
            batches.append(Columns(keys.tolist(), {"x": at[0, keys], "y": at[1, keys]}))
        bench.batches("warm", batches[:1], batch)
        rows.append(bench.batches(f"move by {what}, batches of {batch:,}", batches[1:], batch))
    moves = []
    for key in rng.choice(count, sizes.single_updates, replace=False).tolist():
        moves.append((key, {"x": float(min(at[0, key] + side / 10, 1)), "y": float(at[1, key])}))
    rows.append(bench.one_by_one("move by a tenth of a side, single", moves))
    slowest = max(row.us for row in rows[:3])
    verdicts = [
        Verdict("geofences: matches per point", 9.0, round(matched, 2)),
        Verdict("geofences: updates/s in batches, a tenth of a side", 20_000, round(1e6 / rows[0].us)),
        Verdict("geofences: updates/s in batches, anywhere", 20_000, round(1e6 / slowest)),
        Verdict("memory, GB", 8.0, _memory_gb(), least=False),
    ]
    return rows, verdicts


@kernel
def _scan(
    stored: Regions, before: Regions, after: Regions, dimensions: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """For each changed region, the stored regions that overlap its new content and not its old one.

    Returns offsets and rows. All dimensions belong to one space.
    """
    count, rows = after.start.size - 1, stored.start.size - 1
    begins, out, found = np.zeros(count + 1, np.int64), np.empty(1024, np.int32), 0
    old, new = np.empty((2, dimensions), np.int64), np.empty((2, dimensions), np.int64)
    for number in range(count):
        old[0, :], old[1, :], new[0, :], new[1, :] = LOW, HIGH, LOW, HIGH
        had = before.start[number + 1] > before.start[number]
        for cell in range(before.start[number], before.start[number + 1]):
            old[0, before.cells[cell, 0]], old[1, before.cells[cell, 0]] = before.cells[cell, 1], before.cells[cell, 2]
        for cell in range(after.start[number], after.start[number + 1]):
            new[0, after.cells[cell, 0]], new[1, after.cells[cell, 0]] = after.cells[cell, 1], after.cells[cell, 2]
        if found + rows > out.size:
            larger = np.empty(2 * (found + rows), np.int32)
            larger[:found] = out[:found]
            out = larger
        for row in range(rows):
            matches, matched = True, had
            for cell in range(stored.start[row], stored.start[row + 1]):
                d, low, high = stored.cells[cell, 0], stored.cells[cell, 1], stored.cells[cell, 2]
                if low >= new[1, d] or new[0, d] >= high:
                    matches = False
                    break
                if low >= old[1, d] or old[0, d] >= high:
                    matched = False
            if matches and not matched:
                out[found] = row
                found += 1
        begins[number + 1] = found
    return begins, out[:found]
