"""What the first use of an index compiles: every kind of filter, event and column once, on small inputs.

The second process of a cold start runs it (`engine/access/warm_up.py`), and `whimbrel warm` as one of its steps.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pyarrow as pa

from whimbrel.engine.access.segment import Segment
from whimbrel.engine.access.warm_up import WARM_UP, compile_match
from whimbrel.engine.index import Index
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.filter import Filter
from whimbrel.model.patterns import has_regexes

_FILTERS = [
    "url LIKE '%.pdf'", "url LIKE '%error%'", "url LIKE 'a%b%c'", "url RLIKE 'a+|b'", "url NOT LIKE '%x'",
    "ip IN CIDR '10.0.0.0/8'", "ip IN CIDR '::1/128'", "at >= TIMESTAMP '2026-01-01T00:00:00Z'", "a < b",
    "tags CONTAINS ALL ('a', 'b')", "n IN (1, 2, 3)", "n BETWEEN 1 AND 5", "n != 3", "n IS NULL", "n IS MISSING",
    "x > 1.5 OR y = TRUE", "d.e = 'f'", "d.e = 'f' AND d.g > 1", "n >= 9007199254740993", "NOT (n > 3 AND x < 2)",
    "y IS NOT TRUE", "n\u00a0= 5",
]  # fmt: skip
_EVENTS: list[dict[str, object]] = [
    {"url": "a.pdf", "ip": "10.1.1.1", "at": "2026-05-01T00:00:00Z", "a": 1, "b": 2, "tags": ["a", "b"], "n": 3},
    {"url": "error", "ip": "::1", "n": None, "x": 2.5, "y": True, "d": {"e": "f"}, "tags": ["c"]},
    {"n": 9007199254740993, "x": -1, "url": None, "tags": [None, "a"], "d": [{"e": "f", "g": 2}, {"e": "g"}]},
]


def compile_all() -> None:
    """Compile everything; the second process calls it."""
    WARM_UP.run(_plan_and_match, use_index)


def _plan_and_match() -> None:
    """Compile what plans a segment, then `match`: what a large load needs last."""
    with suppress(WhimbrelError):
        plan_segment()
    compile_match()


def plan_segment() -> None:
    """Make a segment that has every access key."""
    some = [f"c = 'v{row % 7}' AND p < {row} AND n LIKE 'x{row % 50}%'" for row in range(300)]
    some += [f"a{row % 5} = {row % 3} AND a{row % 4} = {row % 2}" for row in range(300)]
    some += [f"x >= {row} AND y <= {row} AND z > {row % 9}" for row in range(300)] + ["p < 5", "a1 IS NOT NULL"]
    Segment.of_filters(range(len(some)), [Filter.parse(text) for text in some])


def sample_filters() -> list[str]:
    """Filters of every kind."""
    return [text for text in _FILTERS if has_regexes() or "RLIKE" not in text]


def use_index() -> None:
    """Match events of every form and columns of every type against filters of every kind."""
    for id_type in (int, str):
        index = Index(timestamps=["at"])
        for number, text in enumerate(sample_filters()):
            index.add(id_type(number), text)
        index.merge()
        index.match_batch(_EVENTS)
    index.match_batch(b"\n".join(map(msgspec.json.encode, _EVENTS)))
    for event in _EVENTS:
        index.match(msgspec.json.encode(event))
        index.match(event)
        index.near_misses(event)
    for kind in (pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.bool_(), pa.string()):
        column = pa.array([1, 0, None, 1], pa.int8()).cast(kind)
        texts = pa.array(["a.pdf", None, "10.0.0.1", "b"])
        for text in (texts, texts.cast(pa.large_string()), texts.dictionary_encode(), texts.cast(pa.string_view())):
            index.match_batch(pa.table({"n": column, "x": column, "url": text, "ip": text, "d.e": text}))
    index.match_batch(pa.table({"at": ["2026-05-01T00:00:00Z", None]}))
    lists = pa.array([["a"], [], None, ["b", "c"]])
    index.match_batch(pa.table({"tags": lists, "url": lists, "n": pa.array([[1], [2, 3], None, []])}))
