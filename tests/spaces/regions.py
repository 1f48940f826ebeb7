"""Strategies for spaces and regions: few values, so that ends meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from whimbrel.model.values import Timestamp
from whimbrel.spaces import Interval
from whimbrel.spaces.dimensions.interval import ENDS

SPACES: list[dict[str, dict[str, str]]] = [
    {"line": {"x": "number"}},
    {"map": {"x": "number", "y": "integer"}},
    {"map": {"x": "number", "y": "integer"}, "market": {"y": "integer", "name": "string"}, "log": {"at": "timestamp"}},
    {"wide": {f"d{n}": "number" for n in range(6)} | {"x": "integer", "name": "string", "z": "number"}},
]
VALUES: dict[str, list[Any]] = {
    "number": [-1e300, -2.5, -1, 0, 0.5, 1, 2, 7, 1e300],
    "integer": [-5, -1, 0, 1, 2, 3, 7],
    "string": ["", "a", "a\0", "ab", "b", "\U0001f600"],
    "timestamp": [Timestamp(at) for at in (-1, 0, 1, 10**18)],
}


@st.composite
def intervals(draw: st.DrawFn, kind: str) -> Interval:
    """An interval with values of the domain."""
    values = VALUES[kind]
    if draw(st.integers(0, 3)) == 0:
        point = draw(st.sampled_from(values))
        return Interval(point, point)
    low, high = sorted(draw(st.lists(st.integers(0, len(values) - 1), min_size=2, max_size=2, unique=True)))
    ends = draw(st.sampled_from(ENDS))
    interval = Interval(draw(st.sampled_from([None, values[low]])), draw(st.sampled_from([None, values[high]])), ends)
    return interval if has_values(interval, kind) else Interval(values[low], values[high])


def has_values(interval: Interval, kind: str) -> bool:
    low, high = interval.low, interval.high
    if low is None or high is None:  # nothing lies below the empty string
        return not (kind == "string" and high == "" and interval.ends[1] == ")")
    if kind in ("integer", "timestamp") and interval.ends == "()":
        first, last = (each.nanoseconds if isinstance(each, Timestamp) else each for each in (low, high))
        return bool(last - first > 1)  # type: ignore[operator]
    return not (kind == "string" and interval.ends == "()" and (low, high) in (("a", "a\0"),))


@st.composite
def regions(draw: st.DrawFn, spaces: dict[str, dict[str, str]]) -> dict[str, Interval]:
    """A region that is valid in some space."""
    kinds = {name: kind for dimensions in spaces.values() for name, kind in dimensions.items()}
    names = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=1, max_size=4, unique=True))
    return {name: draw(intervals(kinds[name])) for name in names}
