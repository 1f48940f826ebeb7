"""Parquet files as Arrow batches; a truncated or damaged file is refused with the reason."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import IO, TYPE_CHECKING

from whimbrel.model.event_tables import needed_columns
from whimbrel.readers.errors import FileTruncated, FileUnreadable, InputError, InputPlace

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 16_384


def read_parquet(
    stream: IO[bytes], file: str, attributes: Collection[str] | None = None
) -> Iterator[tuple[range, int, pa.RecordBatch] | InputError]:
    """Read batches, each with the numbers of its rows and the number of all rows.

    Only the columns of `attributes` are read, all if it is None.
    """
    import pyarrow as pa
    from pyarrow import parquet

    try:
        opened = parquet.ParquetFile(stream)
    except (pa.ArrowException, OSError) as error:
        yield FileTruncated(InputPlace(file), f"Expected a whole Parquet file, but got: {_first_line(error)}")
        return
    columns = None if attributes is None else needed_columns(opened.schema_arrow.names, attributes)
    total, row = opened.metadata.num_rows, 0
    try:
        for batch in opened.iter_batches(batch_size=_ROWS, columns=columns):
            yield range(row, row + batch.num_rows), total, batch
            row += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        problem = f"Expected {total:,} rows, but reading failed: {_first_line(error)}"
        yield FileUnreadable(InputPlace(file, row=row), problem)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
