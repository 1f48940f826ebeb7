"""Subscriptions of a file: id, filter and optionally dialect, from JSON lines, CSV or Parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING

import msgspec

from whimbrel.model.errors import IdKindError, WhimbrelError
from whimbrel.model.filter import Filter
from whimbrel.model.limits import FILTER_BYTES
from whimbrel.model.subscription import Id, id_kind
from whimbrel.readers import errors
from whimbrel.readers.errors import InputError, InputPlace
from whimbrel.readers.json_lines import PlacedItems, read_json_lines
from whimbrel.readers.parquet_table import read_parquet
from whimbrel.readers.source import Format, InputFile, open_source

if TYPE_CHECKING:
    import pyarrow as pa

    from whimbrel.model.schema import Schema

_LONGEST_LINE = 6 * FILTER_BYTES.value + 65_536  # JSON may write one byte as six


class SubscriptionRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A subscription as it was read; its filter is not parsed."""

    id: int | str
    filter: object
    dialect: str = "sql"


_DECODER = msgspec.json.Decoder(SubscriptionRow)


Item = tuple[InputPlace, SubscriptionRow | InputError]


def read_subscriptions(file: str, fallback: Format | None = None) -> Iterator[Item]:
    """Read every subscription of a file; an error stands where one was refused."""
    for batch in read_batches(file, fallback):
        yield from batch


def read_batches(file: str, fallback: Format | None = None) -> Iterator[Iterable[Item]]:
    """Read the subscriptions of a file in batches, of which those without anything unusual are `PlacedItems`."""
    try:
        source = open_source(file, fallback)
    except InputError as error:
        yield [(error.place, error)]
        return
    with source.stream:
        try:
            yield from _READERS[source.format](source)
        except InputError as damaged:
            yield [(damaged.place, damaged)]


def parse_subscriptions(file: str, fallback: Format | None = None) -> Iterator[tuple[Id, Filter] | InputError]:
    """Parse and expand the filter of every subscription of a file; an error stands where one was refused."""
    for place, row in read_subscriptions(file, fallback):
        if isinstance(row, InputError):
            yield row
            continue
        filter = parse_filter(place, row)
        yield filter if isinstance(filter, InputError) else (row.id, filter)


def parse_filter(place: InputPlace, row: SubscriptionRow, schema: Schema | None = None) -> Filter | errors.RefusedInput:
    """Parse and expand the filter of one subscription, or return why it was refused."""
    try:
        filter = Filter.parse(row.filter, row.dialect, schema)
        filter.conjunctions  # noqa: B018 - expands the filter, which may pass a limit
    except WhimbrelError as error:
        return errors.RefusedInput(place, error, str(row.filter))
    return filter


def _decoded(line: bytes) -> SubscriptionRow | None:
    """The subscription of a line; None if something about it is unusual or wrong.

    The decoder takes a key that comes twice. Without escapes such a key is seen by its bytes.
    """
    if b"\\u" in line or line.count(b'"id"') != 1 or line.count(b'"filter"') != 1 or line.count(b'"dialect"') > 1:
        return None
    try:
        row = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    is_plain = type(row.filter) is str and (type(row.id) is str or -(1 << 63) <= row.id < 1 << 63)  # type: ignore[operator]
    return row if is_plain else None


def _decoded_lines(content: bytes) -> list[SubscriptionRow] | None:
    """The subscriptions of lines; None if something about one of them is unusual or wrong, or a line is blank.

    The decoder checks neither that an object ends with its line nor that its keys differ. So every line break must
    stand between two objects, and the keys id and filter must each come as often as there are objects.
    """
    breaks = content.count(b"}\n{")
    count = breaks + 1
    keys = (b'"id"', b'"filter"')
    if content.count(b"\n") - content.endswith(b"\n") != breaks or any(content.count(key) != count for key in keys):
        return None
    if b"\\u" in content or b'"dialect"' in content:
        return None
    try:
        rows = _DECODER.decode_lines(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    ids = [row.id for row in rows]
    is_plain = len(rows) == count and {type(row.filter) for row in rows} == {str}
    return rows if is_plain and all(type(id) is str or -(1 << 63) <= id < 1 << 63 for id in ids) else None  # type: ignore[operator]


def _row(place: InputPlace, fields: Mapping[str, object]) -> SubscriptionRow | InputError:
    for name in ("id", "filter"):
        if fields.get(name) is None:
            problem = f"Expected a subscription with id and filter, but it has no {name}"
            return errors.MissingField(place, problem, json.dumps(fields, default=str))
    id, dialect = fields["id"], fields.get("dialect")
    if dialect is None:
        dialect = "sql"
    if not isinstance(dialect, str):
        return errors.MissingField(place, f"Expected the name of a dialect, but got {dialect!r}")
    try:
        id_kind(id)
    except IdKindError as error:
        return errors.RefusedInput(place, error, json.dumps(fields, default=str))
    return SubscriptionRow(id, fields["filter"], dialect)  # type: ignore[arg-type]  # id_kind has checked it


def _json_subscriptions(source: InputFile) -> Iterator[Iterable[Item]]:
    for batch in read_json_lines(
        source.stream, source.name, FILTER_BYTES, _LONGEST_LINE, _decoded, decode_all=_decoded_lines
    ):
        if isinstance(batch, PlacedItems):
            yield batch
        else:
            yield [(place, _row(place, item) if isinstance(item, dict) else item) for place, item in batch]


def _parquet_subscriptions(source: InputFile) -> Iterator[Iterable[Item]]:
    file = source.name
    with source.seekable() as stream:
        for item in read_parquet(stream, file):
            if isinstance(item, InputError):
                yield [(item.place, item)]
                continue
            rows, _, batch = item
            missing = _missing_column(batch.schema.names, InputPlace(file))
            if missing is not None:
                yield [(missing.place, missing)]
                return
            names = [name for name in ("id", "filter", "dialect") if name in batch.schema.names]
            columns = [batch.column(name).to_pylist() for name in names]
            first = InputPlace(file, row=rows.start)
            if _is_plain(batch, names):
                yield PlacedItems(first, list(map(SubscriptionRow, *columns)))
                continue
            places = (first.below(number) for number in range(len(rows)))
            cells = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
            yield [(place, _row(place, fields)) for place, fields in zip(places, cells, strict=True)]


def _is_plain(batch: pa.RecordBatch, names: list[str]) -> bool:
    """Whether every row is a subscription in the canonical dialect, so that none must be looked at."""
    if names != ["id", "filter"] or any(batch.column(name).null_count for name in names):
        return False
    kinds = [str(batch.schema.field(name).type) for name in names]
    return kinds[0] in ("int64", "string") and kinds[1] == "string"


def _csv_subscriptions(source: InputFile) -> Iterator[Iterable[Item]]:
    """All rows are read before the first is returned: ids are numbers only if all of them are."""
    # A byte that is not UTF-8 becomes a lone surrogate, which is found when its row is known.
    with io.TextIOWrapper(source.stream, "utf-8-sig", errors="surrogateescape", newline="") as text:
        items = list(_csv_rows(text, source.name))
    numeric = all(isinstance(fields, InputError) or _is_integer(fields.get("id") or "0") for _, fields in items)
    yield _typed_rows(items, numeric)


def _typed_rows(items: list[tuple[InputPlace, dict[str, str] | InputError]], numeric: bool) -> Iterator[Item]:
    for place, fields in items:
        if isinstance(fields, InputError):
            yield place, fields
        else:
            known: dict[str, object] = {name: cell for name, cell in fields.items() if cell}
            if numeric and "id" in known:
                known["id"] = int(fields["id"])
            yield place, _row(place, known)


_READERS: dict[Format, Callable[[InputFile], Iterator[Iterable[Item]]]] = {
    Format.JSONL: _json_subscriptions,
    Format.CSV: _csv_subscriptions,
    Format.PARQUET: _parquet_subscriptions,
}


def _csv_rows(text: IO[str], file: str) -> Iterator[tuple[InputPlace, dict[str, str] | InputError]]:
    csv.field_size_limit(_LONGEST_LINE)
    reader = csv.reader(text, strict=True)
    header: list[str] | None = None
    row = 0
    while True:
        place = InputPlace(file, reader.line_num + 1, row=None if header is None else row)
        try:
            cells = next(reader, None)
        except csv.Error as error:
            ended = "unexpected end" in str(error)
            problem = f"Expected a CSV row, but got: {error}"
            yield place, errors.FileTruncated(place, problem) if ended else errors.WrongFormat(place, problem)
            if ended:
                return
            row += 1
            continue
        if cells is None:
            if header is None:
                yield (
                    InputPlace(file),
                    errors.FileEmpty(InputPlace(file), "Expected a header with id and filter, but the file is blank"),
                )
            return
        if not cells:  # a blank line
            continue
        if header is None:
            header = cells
            refusal = _missing_column(header, place)
            if refusal is not None:
                yield place, refusal
                return
            continue
        row += 1
        yield place, _csv_fields(place, header, cells)


def _csv_fields(place: InputPlace, header: list[str], cells: list[str]) -> dict[str, str] | InputError:
    shown = ",".join(cells).encode(errors="surrogateescape").decode(errors="replace")
    if len(cells) != len(header):
        return errors.WrongColumns(place, f"Expected {len(header)} cells, but got {len(cells)}", shown)
    try:
        "".join(cells).encode()
    except UnicodeEncodeError as error:
        byte = ord(error.object[error.start]) - 0xDC00
        return errors.WrongEncoding(place, f"Expected text in UTF-8, but got the byte 0x{byte:02x}", shown)
    return dict(zip(header, cells, strict=True))


def _missing_column(names: list[str], place: InputPlace) -> InputError | None:
    for name in ("id", "filter"):
        if name not in names:
            found = ", ".join(names[:10])
            return errors.MissingField(place, f"Expected columns id and filter, but there is no {name} among: {found}")
        if names.count(name) > 1:
            return errors.DuplicateKey(place, f"Expected each column once, but got {name!r} twice")
    return None


def _is_integer(text: str) -> bool:
    """Whether the text is an int64 without plus sign or leading zeros."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
        return False
    return str(int(text)) == text and -(1 << 63) <= int(text) < 1 << 63
