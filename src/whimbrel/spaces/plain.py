"""Calls as plain data for the journal: what a user passed, in a form that means the same when passed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whimbrel.model.values import Timestamp, to_value
from whimbrel.spaces.columns import Columns
from whimbrel.spaces.intervals import Interval

_INTERVAL, _TIME, _COLUMNS = "interval", "time", "columns"


def flatten(item: object) -> object:
    """A constraint, region, list of regions or batch as plain data."""
    if item is None or isinstance(item, str | float) or (isinstance(item, int) and abs(item) < 1 << 63):
        return item
    if isinstance(item, Interval):
        return {_INTERVAL: [flatten(item.low), flatten(item.high), item.ends]}
    if isinstance(item, Columns):
        columns = [[name, [_column(each) for each in _parts(column)]] for name, column in item.values.items()]
        return {_COLUMNS: [list(item.keys), columns]}
    if isinstance(item, Mapping):
        return {"region": [[name, flatten(each)] for name, each in item.items()]}
    if isinstance(item, Sequence):
        return [flatten(each) for each in item]
    value = to_value(item)
    return {_TIME: str(value)} if isinstance(value, Timestamp) else value


def restore(item: Any) -> Any:
    """What was flattened."""
    if isinstance(item, list):
        return [restore(each) for each in item]
    if not isinstance(item, dict):
        return item
    ((kind, content),) = item.items()
    if kind == _INTERVAL:
        return Interval(restore(content[0]), restore(content[1]), content[2])
    if kind == _TIME:
        return Timestamp.parse(content)
    if kind == _COLUMNS:
        keys, columns = content
        read = {name: tuple(np.frombuffer(raw, dtype) for dtype, raw in parts) for name, parts in columns}
        return Columns(keys, {name: parts if len(parts) == 2 else parts[0] for name, parts in read.items()})
    return {name: restore(each) for name, each in content}


def _parts(column: Any) -> tuple[Any, ...]:
    return column if isinstance(column, tuple) else (column,)


def _column(values: Any) -> list[object]:
    array = np.ascontiguousarray(values)
    return [array.dtype.str, array.tobytes()]
