"""Older formats are brought forward, after a copy; newer ones are refused and left as they are."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.broker.inside import event, ids_of, opened, publish, run, subscribe
from whimbrel.broker.requests.entries import NewerEntry
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.store.formats import StoreError
from whimbrel.broker.store.rows import WebhookState
from whimbrel.log import LogWriter, NewerLog
from whimbrel.storage.errors import NewerFormat

FORMAT_1 = Path(__file__).with_name("format-1")
"""Store and log as the broker of commit 9b7f812 wrote them: three subscriptions, one replaced; a cursor; a token."""


def format_1(directory: Path) -> None:
    """A data directory of that time."""
    (directory / "log").mkdir(parents=True)
    for name, path in (("broker.sql", "broker.sqlite"), ("log.sql", "log/log.sqlite")):
        made = sqlite3.connect(directory / path)
        made.executescript((FORMAT_1 / name).read_text())
        made.execute("PRAGMA journal_mode = WAL")
        made.close()


def version_of(path: Path) -> int:
    opened_ = sqlite3.connect(path)
    try:
        return int(opened_.execute("PRAGMA user_version").fetchone()[0])
    finally:
        opened_.close()


def set_version(path: Path, version: int) -> None:
    opened_ = sqlite3.connect(path)
    opened_.execute(f"PRAGMA user_version = {version}")
    opened_.close()


def test_a_store_of_format_1_is_copied_and_brought_forward(tmp_path: Path) -> None:
    format_1(tmp_path)

    async def work() -> None:
        async with opened(tmp_path) as broker:
            found = {one.text: await ids_of(broker, one) for one in broker.store.subscriptions("", 10)}
            assert found == {"data.n = 0": ["0"], "data.n = 1": ["1"], "data.n > 5": ["7"]}
            assert set(broker.tokens.stored) == {"root"}
            (again,) = await publish(broker, event(3, data={"n": 3}))
            assert isinstance(again, Published) and again.duplicate

    run(work)
    assert version_of(tmp_path / "broker.sqlite") > 1
    assert version_of(tmp_path / "broker.sqlite.format-1") == 1
    kept = sqlite3.connect(tmp_path / "broker.sqlite.format-1")
    assert kept.execute("SELECT count(*) FROM subscription").fetchone() == (3,)
    kept.close()
    run(work)  # and once more, in the present format


def test_a_store_of_format_2_keeps_how_its_webhooks_stand(data: Path) -> None:
    before = WebhookState("https://example.org/", "granted", attempts=2, failing=5, due=7)
    store = sqlite3.connect(data / "broker.sqlite")
    store.execute("ALTER TABLE webhook DROP COLUMN moment")
    store.execute("ALTER TABLE webhook DROP COLUMN boot")
    store.execute("INSERT INTO webhook VALUES ('one', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", before[:-2])
    store.commit()
    store.close()
    set_version(data / "broker.sqlite", 2)

    async def work() -> None:
        async with opened(data) as broker:
            assert broker.store.webhooks.state("one") == before

    run(work)


def test_a_crash_before_the_copy_was_whole_does_no_harm(tmp_path: Path) -> None:
    format_1(tmp_path)
    left = tmp_path / ".broker.sqlite.format-1.0123abcd.tmp"
    left.write_bytes(b"half of a copy")
    test_a_store_of_format_1_is_copied_and_brought_forward(tmp_path / "again")

    async def work() -> None:
        async with opened(tmp_path) as broker:
            assert len(broker.store.subscriptions("", 1 << 62)) == 3

    run(work)
    assert not left.exists()


def refused(directory: Path, error: type[Exception], match: str) -> None:
    async def work() -> None:
        async with opened(directory):
            pass

    with pytest.raises(error, match=match):
        run(work)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    async def work() -> None:
        async with opened(tmp_path) as broker:
            await subscribe(broker, "TRUE")

    run(work)
    return tmp_path


def test_a_newer_store_is_refused(data: Path) -> None:
    set_version(data / "broker.sqlite", 99)
    refused(data, StoreError, r"or older, but got 99: a newer Whimbrel wrote it - at .*broker.sqlite")
    assert version_of(data / "broker.sqlite") == 99


def test_a_newer_log_is_refused(data: Path) -> None:
    set_version(data / "log/log.sqlite", 99)
    refused(data, NewerLog, "or older, but got 99")


def test_a_newer_index_is_refused_and_kept(data: Path) -> None:
    (state,) = (data / "index").glob("state-*")
    content = bytearray(state.read_bytes())
    content[8:12] = (99).to_bytes(4, "little")  # where the format stands
    state.write_bytes(content)
    refused(data, NewerFormat, "or older, but got 99")
    assert state.exists()


def test_entries_of_a_newer_kind_are_refused(data: Path) -> None:
    with LogWriter(data / "log") as writer:
        writer.append(b"{}", kind=200).result()
    refused(data, NewerEntry, "but got 200: a newer Whimbrel wrote it")
