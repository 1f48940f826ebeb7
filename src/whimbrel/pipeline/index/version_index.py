"""The index of a broker's versions, which follows its log: a base, and a delta of what came since.

Versions that have ended stay until the base is compiled anew; their ends narrow the pairs (`VersionRanges`). The driver
compiles, and workers map the files. So a range of the log in which no subscription changed costs nothing here, and one
in which a few changed costs these few.

Nothing on disk is needed after a restart: everything is made anew from what the broker knows.
"""

from __future__ import annotations

import pickle
import secrets
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from whimbrel.engine.index import Index
from whimbrel.log.version_ranges import SubscriptionVersion, VersionRanges, add_versions
from whimbrel.model.schema import Schema
from whimbrel.model.token_rules import Rules
from whimbrel.pipeline.index.store import IndexStore
from whimbrel.pipeline.index.workers import close_others, open_shard
from whimbrel.storage.atomic import create_file, make_directory

DELTA_VERSIONS = 5_000
"""New and ended versions from which on the base is compiled anew, if they are also a quarter of it."""


@dataclass(frozen=True, slots=True)
class CompiledVersions:
    """Versions on disk: it is sent to workers, which open them."""

    path: Path
    shards: tuple[str, ...]
    ranges: str
    timestamps: frozenset[str]

    def open(self) -> tuple[list[Index], VersionRanges]:
        """The indexes and what narrows their pairs, from this worker's cache or opened; former ones are closed."""
        store = IndexStore(self.path)
        close_others(store, self.shards)
        return [open_shard(store, name, self.timestamps) for name in self.shards], _open_ranges(self.path, self.ranges)


class VersionIndex:
    """All versions that hold from some offset on, compiled below `path`. Used by the driver."""

    def __init__(self, path: Path, timestamps: Iterable[str] = (), schema: Schema | None = None) -> None:
        self._store = IndexStore(path)
        self._timestamps = frozenset(timestamps)
        self._schema = schema
        self._versions: dict[int, SubscriptionVersion] = {}
        self._ends: dict[int, int] = {}
        self._rules: dict[int, Rules] = {}
        self._base: str | None = None
        self._based = 0  # versions of the base
        self._delta = self._empty()
        self.rebuilds = 0
        shutil.rmtree(self._store.path, ignore_errors=True)  # of a driver before
        self.compiled = CompiledVersions(self._store.path, (), self._save_ranges(), self._timestamps)

    def __len__(self) -> int:
        return len(self._versions)

    def follow(self, versions: Sequence[SubscriptionVersion], watermark: int) -> CompiledVersions:
        """Take versions that began or ended. Those that ended at the watermark or before may be left out."""
        fresh = [one for one in versions if one.number not in self._versions]
        for one in versions:
            self._versions[one.number] = one
            if one.until is not None:
                self._ends[one.number] = one.until
            if one.rules:
                self._rules[one.number] = one.rules
        changed = len(self._delta) + len(fresh) + len(self._ends)
        if changed > max(DELTA_VERSIONS, self._based // 4):
            self._rebuild(watermark)
        elif fresh:
            add_versions(self._delta, fresh)
        if versions:
            self._publish()
        return self.compiled

    def _rebuild(self, watermark: int) -> None:
        """Compile a base of all versions that may still match something."""
        for number in [number for number, end in self._ends.items() if end <= watermark]:
            del self._versions[number], self._ends[number]
            self._rules.pop(number, None)
        base = self._empty()
        add_versions(base, self._versions.values())
        self._base = self._save(base) if len(base) else None
        self._based, self._delta = len(base), self._empty()
        self.rebuilds += 1

    def _publish(self) -> None:
        """Make the present state what workers open, and delete the former one; what they have mapped stays readable."""
        delta = self._save(self._delta) if len(self._delta) else None
        shards = tuple(name for name in (self._base, delta) if name is not None)
        former = self.compiled
        self.compiled = CompiledVersions(self._store.path, shards, self._save_ranges(), self._timestamps)
        for name in set(former.shards) - set(shards):
            shutil.rmtree(self._store.shard_path(name), ignore_errors=True)
        (self._store.path / former.ranges).unlink(missing_ok=True)

    def _save(self, index: Index) -> str:
        folder = self._store.scratch()
        index.save(folder)
        return self._store.adopt(folder)[0]

    def _save_ranges(self) -> str:
        make_directory(self._store.path)
        name = f"{secrets.token_hex(8)}.ranges"
        create_file(self._store.path / name, pickle.dumps(VersionRanges(self._ends, self._rules)))
        return name

    def _empty(self) -> Index:
        return Index(self._timestamps, self._schema)


@lru_cache(maxsize=2)
def _open_ranges(path: Path, name: str) -> VersionRanges:
    found = pickle.loads((path / name).read_bytes())
    assert isinstance(found, VersionRanges)
    return found
