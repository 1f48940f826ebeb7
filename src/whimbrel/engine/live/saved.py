"""Saving and opening an index: its segments, ids, texts and deaths as the files of one directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import cast

import numpy as np

from whimbrel.engine.access.segment import Segment
from whimbrel.engine.ids.id_table import IdTable
from whimbrel.engine.live.directory import open_directory, save_directory
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.live.texts import TextStore


@dataclass(frozen=True, slots=True)
class Saved:
    """What was in the directory."""

    snapshot: Snapshot
    ids: IdTable
    texts: TextStore
    timestamps: list[str]
    schema: object = None


def save(
    path: str | os.PathLike[str],
    snapshot: Snapshot,
    ids: IdTable,
    texts: TextStore,
    timestamps: frozenset[str],
    schema: dict[str, object] | None = None,
) -> None:
    """Write all parts; on return they are on disk, and until then the old index stays."""
    died = np.zeros(0, np.int32) if snapshot.died is None else snapshot.died[: snapshot.rows]
    moved = np.zeros(0, np.int32) if snapshot.moved is None else np.flatnonzero(snapshot.moved[: snapshot.rows])
    dead = snapshot.dead(moved)
    moved = moved if dead is None else moved[~dead]
    places = np.column_stack([moved, snapshot.places(moved)]).astype(np.int32)
    files: dict[str, tuple[dict[str, np.ndarray], dict[str, object]]] = {
        # In order of names, as a file gives them back: a segment that was opened and is saved again is the same file.
        f"segment_{number}": (dict(sorted(segment.arrays.items())), segment.meta)
        for number, segment in enumerate(snapshot.segments)
    }
    files["ids"] = (ids.arrays(), {})
    files["texts"] = (texts.arrays(), {})
    files["state"] = (
        {"died": died, "moved": places},
        {"slots": snapshot.rows, "version": snapshot.version, "timestamps": sorted(timestamps), "schema": schema},
    )
    save_directory(os.fspath(path), files, {"segments": len(snapshot.segments), "subscriptions": len(ids)})


def open(path: str | os.PathLike[str], verify: bool = True) -> Saved:
    """Map all parts. Only the table of ids is changed in place, page by page, in this process alone."""
    parts, manifest = open_directory(os.fspath(path), verify, private=["ids"])
    state, facts = parts["state"]
    died = state["died"].copy() if state["died"].size else None
    stored = [parts[f"segment_{number}"] for number in range(manifest["extra"]["segments"])]
    segments = tuple(Segment(arrays, dict(meta)) for arrays, meta in stored)
    return Saved(
        Snapshot(
            segments,
            rows=cast("int", facts["slots"]),
            version=cast("int", facts["version"]),
            died=died,
            moved=_moved(state["moved"], cast("int", facts["slots"])),
        ),
        IdTable.from_arrays(parts["ids"][0]),
        TextStore.from_arrays(parts["texts"][0]),
        cast("list[str]", facts["timestamps"]),
        facts.get("schema"),
    )


def _moved(places: np.ndarray, rows: int) -> np.ndarray | None:
    """How far each row is moved, of pairs of row and place."""
    if not len(places):
        return None
    moved = np.zeros(rows, np.int32)
    moved[places[:, 0]] = places[:, 1] - places[:, 0]
    return moved
