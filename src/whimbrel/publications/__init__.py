"""Publications: events that stay. Each has a key, is updated and deleted, and its subscriptions hear of changes only.

A publication is the newest state of its key. When an update comes, its new state is matched, and the difference to what
the old state matched are the transitions: a subscription that matches from now on (`enter`), one that no longer does
(`leave`, told only to those who asked), and all that matched a publication that was deleted (`delete`).

>>> import pyarrow as pa
>>> from whimbrel import Index
>>> from whimbrel.publications import IndexVersion, Publications, TransitionRules, Update, UpdateFormat
>>> index = Index()
>>> index.add("near", "distance < 10")
>>> versions = {1: IndexVersion(1, [index], "string")}
>>> format = UpdateFormat(pa.string(), pa.schema([("distance", pa.float64())]))
>>> taxis = Publications(format, TransitionRules(leave=True), versions.__getitem__)
>>> _ = taxis.change_version(1)
>>> updates = [Update("taxi 7", {"distance": 3.0}, 1), Update("taxi 8", {"distance": 90.0}, 1)]
>>> taxis.apply(format.table(updates)).to_pylist()
[{'key': 'taxi 7', 'subscription': 'near', 'kind': 'enter', 'sequence': 1}]
>>> saved = taxis.to_bytes()
>>> taxis = Publications(format, TransitionRules(leave=True), versions.__getitem__)
>>> taxis.load_bytes(saved)
>>> taxis.apply(format.table([Update("taxi 7", {"distance": 12.0}, 2)])).to_pylist()
[{'key': 'taxi 7', 'subscription': 'near', 'kind': 'leave', 'sequence': 2}]

    publications.py             `Publications`: current states, updates in, transitions out, saving and loading
    updates.py                  `UpdateFormat`, `Update`: the columns of updates and states, partial updates
    index_version.py            `IndexVersion`: subscriptions as small integers, matching states
    changing_subscriptions.py   `ChangingSubscriptions`: the same for an index that changes in place
    transition_rules.py         `TransitionRules`: who hears of leaves, hysteresis, dwell
    dwell.py                    pairs that are remembered for hysteresis and dwell; subject spaces use it too
    transition_table.py         `Transitions`: collects transitions as columns
    changes.py, keys.py         arrays: matches of many states and their differences, keys as numbers
    arrow_columns.py            Arrow columns from Python values and NumPy arrays, without pandas
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from whimbrel.publications.index_version import IndexVersion
    from whimbrel.publications.publications import Publications
    from whimbrel.publications.transition_rules import TransitionRules
    from whimbrel.publications.updates import Update, UpdateFormat

__all__ = ["IndexVersion", "Publications", "TransitionRules", "Update", "UpdateFormat"]

_MODULES = {
    "IndexVersion": "index_version",
    "Publications": "publications",
    "TransitionRules": "transition_rules",
    "Update": "updates",
    "UpdateFormat": "updates",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use: subject spaces use `dwell` alone, without Arrow."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return cast("object", getattr(import_module(f"{__name__}.{_MODULES[name]}"), name))
