"""Warm-up: call everything once on small inputs, so that every kernel is compiled and cached on disk.

Numba compiles a kernel for the types that it is called with. So all kinds of loads, keys, ids, columns, patterns and
changes are used here. For container images, and before a service starts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from whimbrel.engine.first_use import sample_filters, use_index
from whimbrel.engine.index import Index
from whimbrel.lab.workloads import Workload, make
from whimbrel.language.columnar.terms import SCANNED_FROM
from whimbrel.overlay.simulation.scenario import Scenario, ScenarioOptions
from whimbrel.overlay.simulation.simulate import Simulation
from whimbrel.publications import IndexVersion, Publications, TransitionRules, Update, UpdateFormat
from whimbrel.spaces import SubjectSpaces

_WORKLOADS: dict[str, dict[str, int | float]] = {
    "mixed": {"n": 3_000, "events": 300},
    "lesubscribe": {"n": 3_000, "events": 300},
    "gryphon": {"n": 3_000, "events": 300},
    "hm": {"n": 3_000, "events": 300},
    "ranges": {"n": 3_000, "events": 300, "attributes": 20, "predicates": 5},
}


def warm_up(progress: Callable[[str], None] = lambda text: None) -> None:
    """Compile every kernel that is not cached yet."""
    progress("loading filters in many forms")
    _load()
    for name, parameters in _WORKLOADS.items():
        progress(f"matching {name}")
        workload = make(name, **parameters)
        _match(workload)
        progress(f"changing {name}")
        _change(workload)
    progress("patterns and types of columns")
    use_index()
    progress("subject spaces")
    _spaces()
    progress("publications")
    _publications()
    progress("an overlay")
    _overlay()


def _load() -> None:
    """Load so many texts that compiled loops are worth compiling, of every kind of term; later loads use them too."""
    some = sample_filters()
    texts = [f"{some[row % len(some)]} AND share < {row / 7} AND id <= {row}" for row in range(SCANNED_FROM)]
    texts += [f"x {op} {number}" for op in ("<", "=") for number in ("1", "0.1", "1e-7", "-12345678901234")]
    for ids in (range(len(texts)), map(str, range(len(texts)))):
        index = Index()
        index.add_many(zip(ids, texts, strict=False))
        index.merge()


def _match(workload: Workload) -> None:
    for ids in (pa.int64(), pa.string()):
        index = Index()
        index.add_many(workload.subscriptions.set_column(0, "id", workload.subscriptions["id"].cast(ids)))
        index.match(workload.events.slice(0, 1).to_pylist()[0])
        index.match_batch(workload.events)
        index.match_batch(workload.events, threads=1)
        index.match_batch(workload.events.slice(0, 50).to_pylist())
    index.analyze(workload.events)
    index.match_batch(workload.events)


def _change(workload: Workload) -> None:
    rows = workload.subscriptions.slice(0, 1_500).to_pylist()
    event = workload.events.slice(0, 1).to_pylist()[0]
    index = Index()
    for row in rows:
        index.add(row["id"], row["filter"])
    index.match(event)
    for row in rows[:20]:
        index.replace(row["id"], row["filter"])
    for row in rows[20:40]:
        index.remove(row["id"])
    with tempfile.TemporaryDirectory() as folder:
        index.save(Path(folder, "index"))
        opened = Index.open(Path(folder, "index"))
        for one in (index, opened):
            one.match(event)
            one.match_batch(workload.events)
            one.near_misses(event)
            one.explain(rows[0]["id"], event)
            one.stats()
            one.plan(rows[0]["id"])
            one.merge()
            one.match(event)
    list(index)


def _spaces() -> None:
    spaces = SubjectSpaces()
    spaces.define("map", {"x": "number", "y": "number"})
    for key in range(30):
        spaces.subscribe(key, [{"x": (key, key + 5), "y": (0, 9)}], leave=True)
        spaces.publish(key, [{"x": key, "y": 1}])
        spaces.update_publication(key, {"x": key + 1, "y": 2})
    spaces.update_many([(key, {"x": key, "y": 3}) for key in range(30)])
    spaces.subscribe_many([(key, [{"x": (key, key + 5)}]) for key in range(100, 3_100)])
    spaces.publish_many([(key, [{"x": key}]) for key in range(100, 3_100)])
    for key in range(100, 150):
        spaces.update_subscription(key, {"x": (key + 1, key + 9)})
    spaces.delete_publication(3)
    spaces.unsubscribe(3)


def _publications() -> None:
    index = Index()
    index.add_many((number, f"n < {number}") for number in range(20))
    versions = {1: IndexVersion(1, [index], "int64")}
    format = UpdateFormat(pa.string(), pa.schema([("n", pa.float64())]))
    states = Publications(format, TransitionRules(leave=True), versions.__getitem__)
    states.change_version(1)
    for sequence in (1, 2):
        states.apply(format.table([Update(str(key), {"n": key / sequence}, sequence) for key in range(30)]))
    states.find(pa.array(["1", "none"]))
    states.save()
    states.load_bytes(states.to_bytes())
    states.apply(format.table([Update("3", {"n": 99.0}, 3), Update("4", {}, 3, deleted=True)]))


def _overlay() -> None:
    options = ScenarioOptions(routers=5, subscribers=2, publishers=2, filters=60, events=20, churn=0.2, names=10)
    Simulation(Scenario(options)).run("prefix")
