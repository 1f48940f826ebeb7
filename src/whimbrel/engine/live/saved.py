"""The saved form of an index: its segments, ids, texts and deaths as the files of one directory.

Who writes: a save takes a `SavedState` under the lock of changes, which copies the arrays that later changes write to,
and writes its files afterwards without the lock. The MANIFEST holds the caller's facts, so they always describe the
state they were saved with.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from whimbrel.engine.access.segment import Segment
from whimbrel.engine.ids.id_table import IdTable
from whimbrel.engine.live.directory import open_directory, save_directory
from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.live.subscription_set import SubscriptionSet
from whimbrel.engine.live.texts import TextStore
from whimbrel.model.schema import Schema
from whimbrel.storage.facts import Facts, checked_facts

Files = dict[str, tuple[Mapping[str, np.ndarray], dict[str, object]]]


@dataclass(frozen=True, slots=True)
class SavedState:
    """All of an index at one moment, ready to be written: files of arrays by name, and counts for the MANIFEST."""

    files: Files
    segments: int
    subscriptions: int

    @staticmethod
    def take(subscriptions: SubscriptionSet, timestamps: frozenset[str]) -> SavedState:
        """The state now. Holds the lock of changes for some milliseconds: a flush of the head, and copies of arrays."""
        with subscriptions.segments.lock:
            subscriptions.segments.flush()
            snapshot = subscriptions.segments.snapshot
            died = np.zeros(0, np.int32) if snapshot.died is None else snapshot.died[: snapshot.rows].copy()
            schema = None if subscriptions.schema is None else subscriptions.schema.to_document()
            state = {
                "slots": snapshot.rows,  # the name that files have for rows
                "version": snapshot.version,
                "timestamps": sorted(timestamps),
                "schema": schema,
            }
            files: Files = {
                # Sorted by name, as in a file that is read: so an opened segment is saved as the same file.
                f"segment_{number}": (dict(sorted(segment.arrays.items())), segment.facts())
                for number, segment in enumerate(snapshot.segments)
            }
            files["ids"] = subscriptions.ids.arrays(), {}
            files["texts"] = subscriptions.texts.arrays(), {}
            files["state"] = {"died": died, "moved": _moves(snapshot)}, state
            return SavedState(files, len(snapshot.segments), len(subscriptions.ids))

    def write(self, path: str | os.PathLike[str], facts: Facts | None = None) -> None:
        """Write all files. On return they are on disk; until then the directory holds the old index."""
        extra = {"segments": self.segments, "subscriptions": self.subscriptions, "facts": checked_facts(facts)}
        save_directory(os.fspath(path), self.files, extra)


@dataclass(frozen=True, slots=True)
class OpenedIndex:
    """An index as it was read from its directory."""

    subscriptions: SubscriptionSet
    timestamps: list[str]
    facts: dict[str, object]


def open_index(path: str | os.PathLike[str], verify: bool = True) -> OpenedIndex:
    """Map all files. Only the table of ids is written to, page by page, in this process alone."""
    files, manifest = open_directory(os.fspath(path), verify, private=["ids"])
    arrays, state = files["state"]
    rows = cast("int", state["slots"])
    stored = [files[f"segment_{number}"] for number in range(manifest["extra"]["segments"])]
    snapshot = Snapshot(
        tuple(Segment.stored(arrays, meta) for arrays, meta in stored),
        rows=rows,
        version=cast("int", state["version"]),
        died=arrays["died"].copy() if arrays["died"].size else None,
        moved=_moved(arrays["moved"], rows),
    )
    document = state.get("schema")
    return OpenedIndex(
        SubscriptionSet(
            None if document is None else Schema.from_document(document),
            IdTable.from_arrays(files["ids"][0]),
            TextStore.from_arrays(files["texts"][0]),
            snapshot,
        ),
        cast("list[str]", state["timestamps"]),
        manifest["extra"].get("facts", {}),
    )


def _moves(snapshot: Snapshot) -> np.ndarray:
    """The living rows that are moved, with their places: int32 pairs."""
    moved = np.zeros(0, np.int32) if snapshot.moved is None else np.flatnonzero(snapshot.moved[: snapshot.rows])
    dead = snapshot.dead(moved)
    moved = moved if dead is None else moved[~dead]
    return np.column_stack([moved, snapshot.places(moved)]).astype(np.int32)


def _moved(places: np.ndarray, rows: int) -> np.ndarray | None:
    """How far each row is moved, from pairs of row and place; None if none is."""
    if not len(places):
        return None
    moved = np.zeros(rows, np.int32)
    moved[places[:, 0]] = places[:, 1] - places[:, 0]
    return moved
