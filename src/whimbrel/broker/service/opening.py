"""Open a data directory: the log, and every fold over it brought up to the end of the log.

log/            the truth
broker.sqlite   subscriptions, tokens, publications, spaces, of which the log may have deleted the entries; cursors,
                dead letters, attempts of webhooks
index/          the saved index, a cache
matches/, ids/  sorted lists of matches and of event ids, derived
history/        early matches of subscriptions that start before their creation, derived
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from whimbrel.broker.delivery.history import History
from whimbrel.broker.lists import RunSet
from whimbrel.broker.lists.event_ids import EventIds, read_names
from whimbrel.broker.requests import entries
from whimbrel.broker.requests.entries import Change, TenantEvents
from whimbrel.broker.sequencing.watermark import WaitingRange, Watermark
from whimbrel.broker.service.schema_fold import grow
from whimbrel.broker.service.stamps import FoldStamps
from whimbrel.broker.store import Store
from whimbrel.broker.store.formats import StoreError
from whimbrel.engine.index import Index
from whimbrel.log import EVENT, LogReader, LogWriter, match_commit
from whimbrel.log.match_commit import COMMIT_BYTES, MatchCommit
from whimbrel.log.match_list import decode_all
from whimbrel.log.reader import Row
from whimbrel.log.version_ranges import SubscriptionVersion, VersionRanges, add_filters, add_versions
from whimbrel.model.schema import Schema
from whimbrel.model.token_rules import Rules
from whimbrel.storage.errors import NewerFormat, SavedIndexError

STAGED_BACKUP = ".backup-"
"""What the names of directories begin with in which a copy of the store waits to be sent as a backup."""
_VERSIONS = 10_000  # of one page


@dataclass
class OpenedDirectory:
    """Log, store, lists and index of a data directory, all brought up to the end of the log."""

    directory: Path
    writer: LogWriter
    reader: LogReader
    store: Store
    lists: RunSet
    ids: EventIds
    index: Index
    constrained: dict[int, Rules]
    history: History
    watermark: Watermark
    stamps: FoldStamps = field(default_factory=FoldStamps)
    """How far the folds are: every fold joins, and the log is truncated below the lowest."""

    def close(self) -> None:
        """Close everything; the log first, so that nothing new comes."""
        self.writer.close()
        self.store.close()
        self.reader.close()


def open_directory(directory: Path, timestamps: Iterable[str] = (), schema: Schema | None = None) -> OpenedDirectory:
    """Open or create a broker's data. Costs what came after the last seal of the lists, not the log."""
    directory.mkdir(parents=True, exist_ok=True)
    writer = LogWriter(directory / "log")
    with contextlib.ExitStack() as on_error:
        on_error.callback(writer.close)
        for staged in directory.glob(f"{STAGED_BACKUP}*"):  # of a process that was killed
            shutil.rmtree(staged, ignore_errors=True)
        reader = LogReader(directory / "log")
        on_error.callback(reader.close)
        store = Store(directory / "broker.sqlite", reader.id)
        on_error.callback(store.close)
        _check_reach(store, reader, directory)
        lists = RunSet(directory / "matches", reader.end, floor=reader.floor)
        ids = EventIds(directory / "ids", reader)
        _catch_up(reader, store, lists, ids)
        schema = grow(schema, store)
        index = _open_index(directory / "index", reader.id, store, timestamps, schema)
        constrained = {number: msgspec.json.decode(rules) for number, rules in store.constrained()}
        history = History(directory / "history", reader, index.timestamps, index.schema)
        watermark = Watermark(_waiting(reader, store))
        on_error.pop_all()
    return OpenedDirectory(directory, writer, reader, store, lists, ids, index, constrained, history, watermark)


def _check_reach(store: Store, reader: LogReader, directory: Path) -> None:
    """StoreError if the log no longer has what the store lacks: subscriptions and tokens would be lost in silence."""
    if store.stamp < reader.floor:
        raise StoreError(
            directory / "broker.sqlite",
            f"Expected a store with all entries below {reader.floor:,}, which the log has deleted, but it ends at"
            f" {store.stamp:,}: restore a backup",
        )


def _waiting(reader: LogReader, store: Store) -> WaitingRange:
    """The events that no engine has matched yet."""
    found = reader.waiting(max(store.matching.watermark, reader.floor))
    return WaitingRange(reader.end, reader.end) if found is None else WaitingRange(found[0], found[1] + 1)


def match_waiting(opened: OpenedDirectory) -> None:
    """Match what another engine left: commits of the waiting range go to the log, and the folds follow."""
    first, until = opened.watermark.waiting
    if first == until:
        return
    ended = [one for one in versions_between(opened.store, opened.reader, first, until) if one.until is not None]
    index = Index(opened.index.timestamps, opened.index.schema)
    add_versions(index, ended)
    constrained = {**opened.constrained, **{one.number: one.rules for one in ended if one.rules}}
    ranges = VersionRanges({one.number: one.until for one in ended if one.until is not None}, constrained)
    for chunk in opened.reader.chunks(first, until):
        waiting = [row for row in chunk if row[2] == EVENT and row[4] is None]
        offsets, lists = ranges.match([opened.index, index], [row[0] for row in waiting], [row[3] for row in waiting])
        end = chunk[-1][0] + 1
        commit = MatchCommit.of(opened.reader.id, first, end, offsets, lists)
        opened.writer.append_rows([entries.encode(part) for part in commit.split(COMMIT_BYTES)]).result()
        first = end
    opened.watermark.waiting = WaitingRange(opened.reader.end, opened.reader.end)
    _catch_up(opened.reader, opened.store, opened.lists, opened.ids)


def versions_between(
    store: Store, reader: LogReader, first: int, until: int, since: int = 0
) -> Iterator[SubscriptionVersion]:
    """All versions that overlap [first, until) and began or ended at `since` or later, in the order of numbers."""
    after = -1
    while page := store.matching.overlapping(first, until, since, after, _VERSIONS):
        for held in page:
            text, dialect, rules = held.text, held.dialect, held.rules
            if text is None:  # it ended before stores kept that
                put = entries.decode(*reader.pick([held.number])[0][2:4])
                assert isinstance(put, entries.SubscriptionPut)
                text, dialect, rules = put.text, put.dialect, msgspec.json.encode(put.rules).decode()
            yield SubscriptionVersion(
                held.number, text, dialect or "sql", held.number, held.until, msgspec.json.decode(rules or "{}")
            )
        after = page[-1].number


def _catch_up(reader: LogReader, store: Store, lists: RunSet, ids: EventIds) -> None:
    """Apply the entries that some fold has not seen yet."""
    start = max(min(store.stamp, lists.end, ids.sealed), reader.floor)
    tenant, left = "", 0
    for chunk in reader.chunks(start):
        changes: list[tuple[int, Change]] = []
        for offset, _, kind, payload, _ in chunk:
            if kind == EVENT:
                if offset >= ids.sealed:
                    names = read_names(payload)
                    ids.remember({ids.digest(tenant if left else "", names.source, names.id): offset})
                left = max(0, left - 1)
                continue
            entry = entries.decode(kind, payload)
            if isinstance(entry, TenantEvents):
                tenant, left = entry.tenant, entry.events
            elif offset >= store.stamp:
                changes.append((offset, entry))
        end = chunk[-1][0] + 1
        if end > lists.end:
            _add_matches(lists, [row for row in chunk if row[0] >= lists.end], end)
            lists.merge()
        if not left and ids.advance(end):  # a sealed range must not start between a TenantEvents and its events
            ids.seal(end)
        if end > store.stamp:
            store.apply(changes, end)
    lists.merge()
    ids.seal(reader.end)


def _add_matches(lists: RunSet, rows: list[Row], end: int) -> None:
    """Add the match lists of events, and the match lists that commits bring for older events."""
    bounds, numbers = decode_all([row[4] or b"" for row in rows])
    offsets = np.repeat(np.array([row[0] for row in rows], np.int64), np.diff(bounds))
    brought = [match_commit.decode(row[3]).pairs() for row in rows if row[2] == entries.MATCHES]
    numbers = np.concatenate([numbers, *(pairs[0] for pairs in brought)])
    lists.add(end, numbers, np.concatenate([offsets, *(pairs[1] for pairs in brought)]))


def _open_index(path: Path, log_id: str, store: Store, timestamps: Iterable[str], schema: Schema | None) -> Index:
    """The saved index with what changed since, or a new one of all subscriptions."""
    try:
        index = Index.open(path, verify=False, timestamps=timestamps)
        saved = index.facts.get("offset")
        is_ours = index.facts.get("log") == log_id and _takes_over(index, schema)
        if is_ours and isinstance(saved, int) and saved <= store.stamp:
            new, ended = store.changed_since(saved)
            # Beyond the offset it may hold what never reached the disk; below zero are ephemeral subscriptions.
            doubtful = [id for id in index if isinstance(id, int) and not 0 <= id < saved]
            for number in {*ended, *doubtful}:
                if number in index:
                    index.remove(number)
            add_filters(index, new)
            if len(index) != store.count_on_events():  # it lacks some whose end never reached the disk
                add_filters(index, [one for one in store.live_filters() if one[0] not in index])
            return index
    except NewerFormat:
        raise
    except SavedIndexError:
        shutil.rmtree(path, ignore_errors=True)
    index = Index(timestamps, schema)
    add_filters(index, store.live_filters())
    return index


def _takes_over(index: Index, schema: Schema | None) -> bool:
    """Whether a saved index can go on with a schema: its own, or one that extends it, which it then has."""
    if index.schema is None or schema is None:
        return index.schema is schema
    if not all(change.is_extension for change in index.schema.diff(schema)):
        return False
    index.schema.extend(schema)
    return True
