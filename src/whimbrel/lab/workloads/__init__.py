"""Workloads: seeded, frozen sets of subscriptions and events, by name.

The same call gives the same bytes for ever, so that figures taken years apart compare. One family per file; a new one
is a new file and a line in WORKLOADS.
"""

import inspect
from collections.abc import Callable

from whimbrel.lab.workloads.gryphon import gryphon
from whimbrel.lab.workloads.hm import hm
from whimbrel.lab.workloads.lesubscribe import lesubscribe
from whimbrel.lab.workloads.mixed import mixed
from whimbrel.lab.workloads.properties import properties
from whimbrel.lab.workloads.ranges import ranges
from whimbrel.lab.workloads.skewed import skewed
from whimbrel.lab.workloads.stocks import stocks
from whimbrel.lab.workloads.unselective import unselective
from whimbrel.lab.workloads.workload import Format, Workload, event_dicts

__all__ = [
    "WORKLOADS", "Format", "Workload", "event_dicts", "gryphon", "hm", "lesubscribe", "make", "mixed", "properties",
    "ranges", "skewed", "stocks", "unselective",
]  # fmt: skip

WORKLOADS: dict[str, Callable[..., Workload]] = {
    function.__name__: function
    for function in (lesubscribe, gryphon, ranges, mixed, hm, stocks, properties, skewed, unselective)
}


def make(name: str, **parameters: int | float) -> Workload:
    """The workload of that name; the parameters are those of its function.

    >>> make("ranges", n=3, attributes=2, predicates=1, events=5).subscriptions.num_rows
    3
    """
    if name not in WORKLOADS:
        raise ValueError(f"Expected a workload of {', '.join(WORKLOADS)}, but got {name!r}")
    signature = inspect.signature(WORKLOADS[name])
    try:
        signature.bind(**parameters)
    except TypeError as error:
        raise ValueError(f"{name}: expected the parameters {', '.join(signature.parameters)}, but {error}") from None
    return WORKLOADS[name](**parameters)
