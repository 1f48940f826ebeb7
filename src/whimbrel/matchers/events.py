"""Events in any shape that users have: dicts, Arrow tables and batches, pandas and polars frames.

A null cell of a column, or of a struct's field, is missing (and so is a NaN, which is read as null); a null inside
a list or a map is a value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from whimbrel.model.errors import EventError
from whimbrel.model.event import Event
from whimbrel.model.values import Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 4_096
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


def read_events(events: object, attributes: Collection[str], timestamps: Collection[str] = ()) -> Iterator[Event]:
    """The events of any supported shape; of a table, only the columns that `attributes` need are read."""
    table = as_arrow(events)
    if table is not None:
        yield from _table_events(table, attributes, timestamps)
        return
    if isinstance(events, Mapping) or not isinstance(events, Iterable):
        raise EventError("a list of objects, an Arrow table or a data frame", type(events).__name__)
    for row, event in enumerate(events):
        try:
            yield Event.of(event, timestamps)
        except EventError as error:
            raise EventError(error.expected, error.found, f"event {row}: {error.path}") from error


def as_arrow(events: object) -> pa.Table | None:
    """The Arrow table of an Arrow, pandas or polars object without copying where types allow; None for others."""
    if isinstance(events, list | tuple):
        return None
    module = type(events).__module__.partition(".")[0]
    if module not in ("pyarrow", "pandas", "polars") and not hasattr(events, "__arrow_c_stream__"):
        return None
    import pyarrow as pa

    if isinstance(events, pa.Table):
        return events
    if isinstance(events, pa.RecordBatch):
        return pa.Table.from_batches([events])
    try:
        if module == "pandas":
            return pa.Table.from_pandas(events, preserve_index=False)
        return pa.table(events)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise EventError("columns of one type each", str(error), type(events).__name__) from None


def needed_columns(names: Iterable[str], attributes: Collection[str]) -> list[str]:
    """The columns that hold a mentioned attribute, or a part of one."""
    return [name for name in names if any(a == name or a.startswith(f"{name}.") for a in attributes)]


def _table_events(table: pa.Table, attributes: Collection[str], timestamps: Collection[str]) -> Iterator[Event]:
    names = needed_columns(table.column_names, attributes)
    if not names:
        yield from (Event({}) for _ in range(table.num_rows))
        return
    for batch in table.select(names).to_batches(max_chunksize=_ROWS):
        columns = [_cells(batch.column(i), name) for i, name in enumerate(names)]
        for cells in zip(*columns, strict=True):
            yield _row_event(names, cells, timestamps)


def _row_event(names: list[str], cells: tuple[object, ...], timestamps: Collection[str]) -> Event:
    present = [(name, cell) for name, cell in zip(names, cells, strict=True) if cell is not None]
    if len(dict(present)) == len(present):
        return Event(dict(present), timestamps)
    merged: dict[str, object] = {}
    for name, cell in present:  # columns of the same name unite
        merged[name] = [merged[name], cell] if name in merged else cell
    return Event(merged, timestamps)


def _cells(array: pa.Array, name: str) -> list[object]:
    """A column as Python objects, None where it is missing."""
    import pyarrow as pa

    kind = array.type
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _cells(array.storage, name)
    if types.is_dictionary(kind):
        return _cells(array.dictionary_decode(), name)
    if types.is_run_end_encoded(kind):
        return _cells(pa.compute.run_end_decode(array), name)
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_null(kind) or _is_text(kind):
        return array.to_pylist()  # type: ignore[no-any-return]
    if types.is_floating(kind):
        return [None if cell is None or cell != cell else cell for cell in array.to_pylist()]
    if types.is_decimal(kind):
        return [None if cell is None else float(cell) for cell in array.to_pylist()]
    if types.is_timestamp(kind):
        factor = _NANOSECONDS[kind.unit]
        return [None if cell is None else Timestamp(cell * factor) for cell in array.cast(pa.int64()).to_pylist()]
    if types.is_date(kind):
        days = array.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if day is None else Timestamp(day * 86_400_000_000_000) for day in days]
    return _nested_cells(array, name)


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _nested_cells(array: pa.Array, name: str) -> list[object]:
    import pyarrow as pa

    kind, types = array.type, pa.types
    if types.is_struct(kind):
        columns = [(f.name, _cells(array.field(i), f"{name}.{f.name}")) for i, f in enumerate(kind)]
        valid = array.is_valid().to_pylist()
        return [
            {field: cells[row] for field, cells in columns if cells[row] is not None} if valid[row] else None
            for row in range(len(array))
        ]
    if types.is_map(kind):
        items = _lists(array, array.keys, name)
        values = _lists(array, array.items, name)
        return [
            None if keys is None or cells is None else dict(zip(keys, cells, strict=True))
            for keys, cells in zip(items, values, strict=True)
        ]
    if types.is_list(kind) or types.is_large_list(kind):
        return list(_lists(array, array.values, name))
    if types.is_fixed_size_list(kind):
        return list(_lists(array.cast(pa.list_(kind.value_type)), None, name))
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        return list(_lists(array.cast(pa.large_list(kind.value_type)), None, name))
    raise EventError("a column of booleans, numbers, text, timestamps, lists, structs or maps", str(kind), name)


def _lists(array: pa.Array, values: pa.Array | None, name: str) -> list[list[object] | None]:
    """The members of each list cell, converted like a column; a missing member is null."""
    members = _cells(array.values if values is None else values, name)
    offsets = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [members[offsets[row] : offsets[row + 1]] if valid[row] else None for row in range(len(array))]
