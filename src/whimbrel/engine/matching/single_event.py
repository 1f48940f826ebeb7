"""Matching one event: every segment, then the entries of the head, each checked by its filter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from whimbrel.engine.live.snapshot import Snapshot
from whimbrel.engine.matching.results import Verify, settled
from whimbrel.engine.matching.workspace import Workspace
from whimbrel.model.event import Event

_NOTHING = np.empty(0, np.int32)


def match_event(
    snapshot: Snapshot,
    event: Event | Mapping[str, object],
    timestamps: frozenset[str],
    verify: Verify,
    workspace: Workspace,
) -> np.ndarray:
    """The rows that the event matches, in order of addition; valid until the workspace is used again."""
    found: list[np.ndarray] = []
    is_only = len(snapshot.segments) == 1
    for segment in snapshot.segments:
        rows, coupled = workspace.match_one(segment, event, timestamps, snapshot.rows)
        if not is_only:
            rows = rows.copy()  # the buffer is the next segment's
        if snapshot.died is not None or coupled or segment.meta.verified:
            one = np.array([0, len(rows)]), rows
            mask = np.ones(1, bool) if coupled else None
            rows = settled(snapshot, segment, one, mask, lambda _: [Event.of(event, timestamps)], verify)
        found.append(rows)
    if snapshot.head_size:
        whole = Event.of(event, timestamps)
        in_head = [entry.row for entry in snapshot.head_entries() if entry.filter.matches(whole)]
        found.append(np.array(in_head, np.int32))
    return snapshot.in_order(found[0] if len(found) == 1 else np.concatenate([_NOTHING, *found]))
