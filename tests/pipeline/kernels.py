"""Compiled kernels before workers need them: each worker that finds none compiles all of them by itself."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pyarrow as pa

from tests.pipeline.publishing import publish
from whimbrel.pipeline.index.store import IndexStore
from whimbrel.pipeline.index.workers import open_version
from whimbrel.pipeline.stages.match.task import match_lists
from whimbrel.pipeline.stages.transitions.update_cells import read_cells
from whimbrel.publications import IndexVersion, Publications, TransitionRules, Update, UpdateFormat


@cache
def compile_kernels() -> None:
    """Compile an index, match a table and JSON texts, and update publications, as tasks do."""
    table = pa.table({"a": [1, 2], "x": [0.5, None], "s": ["y", "n"]})
    texts = pa.array(['{"a": 1, "s": "y"}', '{"x": 0.5, "tags": ["y"]}'])
    for filters in ({1: "a < 5 AND x >= 0.5", 2: "s != 'y'"}, {"one": "a = 1 AND s IN ('y', 'n')", "two": "x < 3"}):
        with tempfile.TemporaryDirectory() as folder:
            version = publish(Path(folder), filters)
            manifest, shards = open_version(IndexStore(folder).path, version)
            for events in (table, texts):
                list(match_lists(shards, events, 2, manifest.kind))
            format = UpdateFormat(pa.string(), table.schema)
            states = Publications(format, TransitionRules(), {1: IndexVersion(1, shards, manifest.kind)}.__getitem__)
            states.change_version(1)
            for number in (1, 2):
                updates = [Update(f"key {key}", {"a": number, "s": "y"}, number) for key in range(200)]
                (batch,) = format.table(updates).to_batches()
                states.apply(read_cells([batch.serialize().to_pybytes()], format.updates))
                states.save()
