"""The matches of states in a worker: subscriptions as codes, small integers that live as long as the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from whimbrel.engine.index import Index
from whimbrel.pipeline.transitions_diff import Matches
from whimbrel.pipeline.worker import open_version

_codes: dict[Any, int] = {}
_ids: list[Any] = []


def code_of(id: Any) -> int:
    """The code of a subscription's id."""
    code = _codes.get(id)
    if code is None:
        code = _codes[id] = len(_ids)
        _ids.append(id)
    return code


def id_of(code: int) -> Any:
    """The id of a code."""
    return _ids[code]


def matcher(path: Path, timestamps: tuple[str, ...]) -> Callable[[int, pa.Table], Matches]:
    """A function that matches states against a version of an index; it opens a version once."""
    opened: dict[int, list[Index]] = {}

    def match(version: int, states: pa.Table) -> Matches:
        if version not in opened:
            opened[version] = open_version(path, version, timestamps)[1]
        shards = opened[version]
        rows: list[np.ndarray] = [np.zeros(0, np.int64)]
        codes: list[np.ndarray] = [np.zeros(0, np.int64)]
        for shard in shards if len(states) else ():
            found = shard.match_batch(states, threads=1)  # the other cores have tasks of their own
            rows.append(found["event"].to_numpy())
            for chunk in found["subscription"].chunks:
                codes.append(_coded(chunk))
        return Matches.of_pairs(np.concatenate(rows), np.concatenate(codes), len(states))

    return match


def exists(path: Path, version: int, timestamps: tuple[str, ...]) -> Callable[[int], bool]:
    """A function that says whether a version has a subscription."""
    _, shards = open_version(path, version, timestamps)
    return lambda code: any(id_of(code) in shard for shard in shards)


def _coded(ids: pa.Array) -> np.ndarray:
    if isinstance(ids, pa.DictionaryArray):
        known = np.array([code_of(id) for id in ids.dictionary.to_pylist()], np.int64)
        return known[ids.indices.to_numpy()] if len(ids) else np.zeros(0, np.int64)
    unique, inverse = np.unique(ids.to_numpy(zero_copy_only=False), return_inverse=True)
    return np.array([code_of(id) for id in unique.tolist()], np.int64)[inverse]
