"""Generated workloads on disk: the next run reads what this one made, as the same call gives the same bytes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from whimbrel.lab.workloads import Workload, make
from whimbrel.storage.atomic import staged_directory

Parameters = dict[str, int | float]
"""The parameters of a workload by name."""


def workload_of(name: str, parameters: Parameters, folder: Path) -> Workload:
    """The workload, from the folder if it is there, else generated and kept there."""
    place = place_of(name, parameters, folder)
    if not place.is_dir():
        _keep(make(name, **parameters), place)
    tables = (pa.parquet.read_table(place / f"{kind}.parquet").combine_chunks() for kind in ("subscriptions", "events"))
    subscriptions, events = tables
    return Workload(name, dict(parameters), 0, subscriptions, events)


def place_of(name: str, parameters: Parameters, folder: Path) -> Path:
    """Where a workload is kept: a folder with `subscriptions.parquet` and `events.parquet`."""
    settings = "-".join(f"{key}{value}" for key, value in parameters.items())
    return folder / f"{name}-{settings}"


def _keep(workload: Workload, place: Path) -> None:
    """Write the workload beside its place, then move it there: an interrupted run leaves nothing half written."""
    with suppress(FileExistsError), staged_directory(place) as written:  # another run may be faster
        workload.write(written)
