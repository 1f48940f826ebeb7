"""Events from any collection that users have: dicts, JSON texts, Arrow tables and batches, pandas and polars frames.

A null cell of a column, or of a struct's field, is missing (and so is a NaN, which is read as null); a null inside
a list or a map is a value. A column of a type that has no values (binary, time, duration) is refused only where a
filter mentions it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import count
from math import isnan
from mmap import mmap
from typing import TYPE_CHECKING, Any

from whimbrel.model.errors import EventError, LimitExceeded
from whimbrel.model.event import AnyEvent, Event
from whimbrel.model.values import Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.model.matcher import Errors

_ROWS = 4_096
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY = 86_400_000_000_000
BOM = b"\xef\xbb\xbf"
"""The byte order mark that some files of UTF-8 begin with."""


def read_events(events: object, attributes: Collection[str], timestamps: Collection[str] = ()) -> Iterator[Event]:
    """The events of any supported shape; of a table, only the columns that `attributes` need are read."""
    events = _texts_of(events)
    table = as_arrow(events)
    if table is not None:
        yield from _table_events(table, attributes, timestamps)
        return
    for row, event in enumerate(objects_of(events)):
        yield _placed(row, Event.of, event, timestamps)


def read_good_events(
    events: object, attributes: Collection[str], timestamps: Collection[str], errors: Errors
) -> Iterator[tuple[int, Event]]:
    """The events that `read_events` gives, with their rows; the row and the error of each bad one go to `errors`."""
    events = _texts_of(events)
    table = as_arrow(events)
    if table is None:
        for row, event in enumerate(objects_of(events)):
            try:
                yield row, Event.of(event, timestamps)
            except (EventError, LimitExceeded) as error:
                errors.append((row, error.at_row(row)))
        return
    check_types(table, attributes)
    for first in range(0, table.num_rows, _ROWS):
        part = rows_of(table, first, first + _ROWS)
        try:
            found = list(_table_events(part, attributes, timestamps))
        except (EventError, LimitExceeded):
            for row in range(part.num_rows):
                try:
                    yield first + row, next(_table_events(part.slice(row, 1), attributes, timestamps))
                except (EventError, LimitExceeded) as error:
                    errors.append((first + row, error.at_row(first + row)))
        else:
            yield from enumerate(found, first)


def check_types(table: pa.Table, attributes: Collection[str]) -> None:
    """Raise EventError for a column that holds some of the attributes, and whose type has no values."""
    wanted = _Wanted(attributes)
    for name, column in zip(table.column_names, table.slice(0, 0).columns, strict=True):
        if wanted.needs(name):
            _cells(column.combine_chunks(), name, wanted)


def objects_of(events: object) -> Iterable[AnyEvent]:
    """The events, if they are a collection; EventError for anything else, a single object too."""
    if isinstance(events, Mapping) or not isinstance(events, Iterable):
        raise EventError("a list of objects, an Arrow table or a data frame", type(events).__name__)
    return events


def _texts_of(events: object) -> object:
    """The lines of JSON lines, or the texts of an Arrow array, where null is an empty object; else what was given."""
    if isinstance(events, str):
        events = events.encode("utf-8", "surrogatepass")
    if isinstance(events, bytes | bytearray | memoryview | mmap):
        lines = bytes(events).removeprefix(BOM).split(b"\n")
        return [line for line in lines if line.strip(b" \t\r" + BOM)]
    if _is_column(events):
        return ["{}" if text is None else text for text in events.to_pylist()]  # type: ignore[attr-defined]
    return events


def _is_column(events: object) -> bool:
    """Whether this is an Arrow array of texts or binary values, chunked or not."""
    kind = type(events)
    if kind.__module__ != "pyarrow.lib" or not kind.__name__.endswith("Array"):
        return False
    values = str(events.type).removeprefix("dictionary<values=").removeprefix("large_")  # type: ignore[attr-defined]
    return values.startswith(("string", "binary"))


def as_arrow(events: object) -> pa.Table | None:
    """The Arrow table of an Arrow, pandas or polars object without copying where types allow; None for others."""
    if isinstance(events, list | tuple) or _is_column(events):
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
            return _from_pandas(events)
        return pa.table(events)
    except (pa.ArrowException, AttributeError, TypeError, ValueError) as error:
        raise EventError("a table with columns of one type each", str(error), type(events).__name__) from None


def _from_pandas(frame: Any) -> pa.Table:
    """The table of a frame; two columns may have one name, which pyarrow would refuse."""
    import pyarrow as pa

    if frame.columns.is_unique:
        return pa.Table.from_pandas(frame, preserve_index=False)
    numbered = frame.set_axis([str(number) for number in range(frame.shape[1])], axis="columns")
    return pa.Table.from_pandas(numbered, preserve_index=False).rename_columns([str(name) for name in frame.columns])


def rows_of(table: pa.Table, first: int, end: int) -> pa.Table:
    """The rows from first to end. Arrow's own slice gives a table without columns more rows than it has."""
    return table.slice(first, max(0, min(end, table.num_rows) - first))


def needed_columns(names: Iterable[str], attributes: Collection[str]) -> list[str]:
    """The columns that hold a mentioned attribute, or a part of one."""
    wanted = _Wanted(attributes)
    return list(filter(wanted.needs, names))


class _Wanted:
    """The mentioned attributes, and the names above them: `d` and `d.e` are above `d.e.x`."""

    def __init__(self, attributes: Collection[str]) -> None:
        self.names = frozenset(attributes)
        self.above = names_above(self.names)

    def needs(self, column: str) -> bool:
        """Whether a column holds a mentioned attribute, or a part of one."""
        return column in self.names or column in self.above

    def holds(self, name: str) -> bool:
        """Whether the attribute of that name, or one that it is a part of, is mentioned."""
        return name in self.names or not self.names.isdisjoint(names_above([name]))


def names_above(names: Iterable[str]) -> set[str]:
    """The names that some name lies below: `d` and `d.e` for `d.e.x`."""
    return {name[:place] for name in names for place in dots(name)}


def dots(name: str) -> Iterator[int]:
    """Where the dots of a name are."""
    return (place for place, letter in enumerate(name) if letter == ".")


def _table_events(table: pa.Table, attributes: Collection[str], timestamps: Collection[str]) -> Iterator[Event]:
    wanted = _Wanted(attributes)
    columns = [i for i, name in enumerate(table.column_names) if wanted.needs(name)]
    names = [table.column_names[i] for i in columns]
    if not names:
        yield from (Event({}) for _ in range(table.num_rows))
        return
    rows = count()
    for batch in table.select(columns).to_batches(max_chunksize=_ROWS):
        cells = [_cells(batch.column(i), name, wanted) for i, name in enumerate(names)]
        for of_row in zip(*cells, strict=True):
            yield _placed(next(rows), _row_event, names, of_row, timestamps)


def _placed(row: int, read: Callable[..., Event], *arguments: object) -> Event:
    """Call `read`, and add the row of the event to its errors."""
    try:
        return read(*arguments)
    except (EventError, LimitExceeded) as error:
        raise error.at_row(row) from error


def _row_event(names: list[str], cells: tuple[object, ...], timestamps: Collection[str]) -> Event:
    present = [(name, cell) for name, cell in zip(names, cells, strict=True) if cell is not None]
    return Event(_object(present), timestamps)


def _object(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    """An object of these members; names that come twice unite, as an attribute's values do."""
    members = dict(pairs)
    return members if len(members) == len(pairs) else _Pairs(pairs)


class _Pairs(Mapping[str, object]):
    """An object that has some key more than once, for `Event` to read."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        self._pairs = pairs

    def items(self) -> list[tuple[str, object]]:  # type: ignore[override]
        return self._pairs

    def __getitem__(self, key: str) -> object:
        return dict(self._pairs)[key]

    def __iter__(self) -> Iterator[str]:
        return (key for key, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)


def _cells(array: pa.Array, name: str, wanted: _Wanted | None) -> list[object]:
    """A column as Python objects, None where it is missing or not `wanted` (None: all of it is)."""
    import pyarrow as pa

    if wanted is not None and name not in wanted.above and not wanted.holds(name):
        return [None] * len(array)
    kind, types = array.type, pa.types
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.bool8":
            return array.to_pylist()  # type: ignore[no-any-return]
        return _cells(array.storage, name, wanted)
    if types.is_dictionary(kind):
        dictionary = array.dictionary
        if types.is_string_view(dictionary.type):  # cannot be taken from
            dictionary = dictionary.cast(pa.large_string())
        return _cells(dictionary.take(array.indices), name, wanted)
    if types.is_run_end_encoded(kind):
        import pyarrow.compute as pc

        return _cells(pc.run_end_decode(array), name, wanted)
    if types.is_nested(kind) and not types.is_union(kind):
        return _nested_cells(array, name, wanted)
    if wanted is not None and not wanted.holds(name):
        return [None] * len(array)
    scalars = _scalar_cells(array, name)
    if scalars is not None:
        return scalars
    if wanted is not None and name not in wanted.names:
        return [None] * len(array)
    raise EventError("a column of booleans, numbers, text, timestamps, lists, structs or maps", str(kind), name)


def _scalar_cells(array: pa.Array, name: str) -> list[object] | None:
    """A column of scalars, or None if its type has no values."""
    import pyarrow as pa

    kind, types = array.type, pa.types
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_null(kind):
        return array.to_pylist()  # type: ignore[no-any-return]
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        try:
            return array.to_pylist()  # type: ignore[no-any-return]
        except UnicodeDecodeError as error:
            raise EventError("text in UTF-8", repr(error.object[error.start : error.end]), name) from None
    if types.is_floating(kind):
        return [None if cell is None or isnan(cell) else cell for cell in array.to_pylist()]
    if types.is_decimal(kind):
        return [None if cell is None else float(cell) for cell in array.to_pylist()]
    if types.is_timestamp(kind):
        factor = _NANOSECONDS[kind.unit]
        return [None if cell is None else Timestamp(cell * factor) for cell in array.cast(pa.int64()).to_pylist()]
    if types.is_date32(kind):
        days = array.cast(pa.int32()).to_pylist()
        return [None if day is None else Timestamp(day * _DAY) for day in days]
    if types.is_date64(kind):  # milliseconds, by the specification of whole days
        moments = array.cast(pa.int64()).to_pylist()
        return [None if moment is None else Timestamp(moment * 1_000_000 // _DAY * _DAY) for moment in moments]
    return None


def _nested_cells(array: pa.Array, name: str, wanted: _Wanted | None) -> list[object]:
    import pyarrow as pa

    kind, types = array.type, pa.types
    valid = array.is_valid().to_pylist()
    if types.is_struct(kind):
        columns = [(f.name, _cells(array.field(i), f"{name}.{f.name}", wanted)) for i, f in enumerate(kind)]
        return [
            _object([(field, cells[row]) for field, cells in columns if cells[row] is not None]) if valid[row] else None
            for row in range(len(array))
        ]
    if types.is_map(kind):
        keys = _lists(array, array.keys, name, None)
        below = None if wanted is None or name in wanted.above else wanted
        items = _lists(array, array.items, name, below)
        return [
            dict(zip(names, cells, strict=True)) if there else None
            for names, cells, there in zip(keys, items, valid, strict=True)
        ]
    lists = _lists(array, array.values, name, wanted)
    return [members if there else None for members, there in zip(lists, valid, strict=True)]


def _lists(array: pa.Array, values: pa.Array, name: str, wanted: _Wanted | None) -> list[list[object]]:
    """The members of each list cell, converted like a column; a missing member is null."""
    import pyarrow as pa

    kind, types = array.type, pa.types
    if types.is_fixed_size_list(kind):
        starts = [row * kind.list_size for row in range(array.offset, array.offset + len(array) + 1)]
        starts, ends = starts[:-1], starts[1:]
    elif types.is_list_view(kind) or types.is_large_list_view(kind):
        starts = array.offsets.to_pylist()
        ends = [start + size for start, size in zip(starts, array.sizes.to_pylist(), strict=True)]
    else:
        starts = array.offsets.to_pylist()
        starts, ends = starts[:-1], starts[1:]
    first, last = min(starts, default=0), max(ends, default=0)
    members = _cells(values.slice(first, last - first), name, wanted)  # a batch is a slice: not the whole column
    return [members[start - first : end - first] for start, end in zip(starts, ends, strict=True)]
