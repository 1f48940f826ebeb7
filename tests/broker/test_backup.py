"""Backup and restore: a copy taken under load is a state that the log explains, and goes on from there."""

from __future__ import annotations

import asyncio
import shutil
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.broker.inside import event, ids_of, opened, publish, run, subscribe
from tests.broker.load import FILTERS, Load
from tests.broker.processes import BrokerProcess
from whimbrel.broker.backup import sending
from whimbrel.broker.backup.making import back_up
from whimbrel.broker.backup.manifest import BackupError, Manifest
from whimbrel.broker.backup.receiving import receive
from whimbrel.broker.backup.restoring import restore
from whimbrel.broker.backup.sending import send
from whimbrel.broker.http import backup
from whimbrel.broker.requests.errors import Truncated
from whimbrel.broker.sequencing.request_group import Published
from whimbrel.broker.service.stamps import FoldStamps
from whimbrel.client import Client
from whimbrel.lab.delivery_checker import judge
from whimbrel.log import CorruptLog, LogReader


def test_a_backup_taken_under_load_is_a_state_that_the_log_explains(tmp_path: Path) -> None:
    """Publishers, consumers and changes work while backups are made. Each is restored and judged by itself."""
    broker = BrokerProcess(tmp_path / "data").start()
    made: list[tuple[Manifest, int]] = []
    try:
        load = Load(broker.url, 3)
        ids = [load.subscribe(text) for text in FILTERS]
        with load.running():
            load.publisher("p1")
            load.publisher("p2")
            load.puller(ids[0])
            load.changer(ids[3])
            for number in range(2):
                told = len(load.history)
                made.append((back_up(tmp_path / "data", tmp_path / f"backup-{number}"), told))
                threading.Event().wait(0.2)
    finally:
        broker.kill()
    assert made[-1][0].end > made[0][0].end
    for number, (manifest, told) in enumerate(made):
        check_restored(tmp_path / f"backup-{number}", tmp_path / f"restored-{number}", manifest, load, ids, told)


def check_restored(backup: Path, directory: Path, manifest: Manifest, load: Load, ids: list[str], told: int) -> None:
    """The restored broker has every event that was acknowledged when the backup began, and delivers by its filters."""
    restore(backup, directory)
    former = manifest.log
    with LogReader(directory / "log") as reader:
        assert reader.id != former and reader.bounds == (manifest.floor, manifest.end)
    acked = [line for line in load.history[:told] if line["op"] == "acked"]
    assert all(line["offset"] < manifest.end for line in acked)
    history = [line for line in load.history if is_before(line, manifest.end)]
    with BrokerProcess(directory) as broker, Client(broker.url) as client:
        again = Load(broker.url, 1)
        again.history = history
        for session, id in enumerate(ids):
            again.note("session", subscription=id, session=session, after=-1)
            position = "-1"
            while found := client.pull(id, after=position, limit=500):
                again._note_delivered(id, session, found)
                position = found[-1].cursor
        (result,) = client.publish([{"n": 1, "tags": []}])
        assert result.offset == manifest.end
    verdict = judge(again.history)
    assert verdict.is_good and verdict.acked >= len(acked), str(verdict)


def is_before(line: dict[str, object], end: int) -> bool:
    """Whether a line of a history speaks of what lies before an offset."""
    offset = line.get("from", line.get("offset", -1))
    return line["op"] == "attempt" or (line["op"] in ("acked", "version") and isinstance(offset, int) and offset < end)


def test_a_restored_broker_has_subscriptions_cursors_and_ids(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path / "data") as broker:
            held = await subscribe(broker, "data.n >= 0")
            await publish(broker, *(event(n, data={"n": n}) for n in range(10)))
            await broker.delivery.acknowledge(held, (await broker.delivery.pull(held, None, 3, 0))[0][-1].cursor)
            back_up(tmp_path / "data", tmp_path / "backup")
            await publish(broker, event("later", data={"n": 1}))
        restore(tmp_path / "backup", tmp_path / "restored")
        async with opened(tmp_path / "restored") as broker:
            again = await publish(broker, event(4, data={"n": 4}), event("later", data={"n": 1}))
            assert [one.duplicate for one in again if isinstance(one, Published)] == [True, False]
            assert await ids_of(broker, held) == [*map(str, range(3, 10)), "later"]

    run(work)


def test_a_restored_broker_has_the_schema_and_its_extensions(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text(
        'type_attribute = "type"\n[attributes]\n"data.price" = "decimal"\n[types.offer]\n"data.price" = "mandatory"\n'
    )
    dealer = {"rule": "create-attribute", "name": "data.dealer", "domain": "string"}
    with BrokerProcess(tmp_path / "data", schema=str(file)) as broker, Client(broker.url) as client:
        client.create("data.price > 3")
        client.extend_schema([dealer])
        whole = client.schema()
        receive(client.download("/backup"), tmp_path / "received")
    back_up(tmp_path / "data", tmp_path / "copied")
    file.unlink()

    async def check(name: str) -> None:
        restore(tmp_path / name, tmp_path / f"{name}-restored")
        async with opened(tmp_path / f"{name}-restored") as broker:
            assert broker.schemas.document()[0] == whole
            made = await publish(broker, event(1, type="offer"), event(2, type="offer", data={"price": 1}))
            assert [isinstance(one, Published) for one in made] == [False, True]

    run(lambda: check("received"))
    run(lambda: check("copied"))


def test_what_was_lost_by_truncation_is_known_after_a_restore(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path / "data") as broker:
            missed = await subscribe(broker, "data.n = 1")
            fine = await subscribe(broker, "data.n = 7")
            await publish(broker, *(event(n, data={"n": n}) for n in range(10)))
            opened_parts = broker._opened
            opened_parts.lists.flush()
            opened_parts.store.sync(6)
            opened_parts.writer.truncate(6).result()  # and the lists do not know of it yet
            back_up(tmp_path / "data", tmp_path / "backup")
        restore(tmp_path / "backup", tmp_path / "restored")
        async with opened(tmp_path / "restored") as broker:
            with pytest.raises(Truncated):
                broker.messages.read(missed, broker.messages.position(missed), 10)
            assert await ids_of(broker, fine) == ["7"]

    run(work)


def test_a_damaged_or_incomplete_backup_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path / "data") as broker:
            await publish(broker, *(event(n, data={"text": "x" * 200}) for n in range(50)))

    run(work)
    steps: list[tuple[str, int, int]] = []
    back_up(tmp_path / "data", tmp_path / "backup", lambda *step: steps.append(step))
    assert {name for name, _, _ in steps} == {"store", "log", "check"} and all(done <= all_ for _, done, all_ in steps)
    with pytest.raises(BackupError, match="new directory"):
        back_up(tmp_path / "data", tmp_path / "backup")
    with pytest.raises(BackupError, match=r"broker\.sqlite"):
        back_up(tmp_path / "nothing", tmp_path / "other")
    with pytest.raises(BackupError, match="empty directory"):
        restore(tmp_path / "backup", tmp_path / "data")
    log = tmp_path / "backup/log/log.sqlite"
    content = log.read_bytes()
    log.write_bytes(content.replace(b"x" * 200, b"x" * 199 + b"y", 1))
    with pytest.raises((BackupError, CorruptLog)):
        restore(tmp_path / "backup", tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
    log.write_bytes(content[:-1])
    with pytest.raises(BackupError, match="bytes"):
        restore(tmp_path / "backup", tmp_path / "restored")
    (tmp_path / "backup/backup.json").unlink()
    with pytest.raises(BackupError, match=r"backup\.json"):
        restore(tmp_path / "backup", tmp_path / "restored")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "data"]


def test_a_newer_backup_is_refused(tmp_path: Path) -> None:
    Manifest(99, "0" * 32, 0, 0, 0, 0, {}).save(tmp_path)
    with pytest.raises(BackupError, match="format 1 or older, but got 99"):
        restore(tmp_path, tmp_path / "restored")


def test_a_broker_sends_its_backup_under_load_and_retention_waits_for_it(tmp_path: Path) -> None:
    """Over HTTP, while events come and the log is truncated: what arrives is whole, and is restored."""
    settings = {"retention_seconds": 0.0, "retention_bytes": 2_000_000}
    broker = BrokerProcess(tmp_path / "data", **settings).start()
    try:
        load = Load(broker.url, 5)
        ids = [load.subscribe(text) for text in FILTERS]
        with load.running(), Client(broker.url) as client:
            load.publisher("p1")
            load.publisher("p2")
            told = len(load.history)
            made = receive(client.download("/backup"), tmp_path / "backup")
        later = receive(client_pieces(broker.url), tmp_path / "later")
    finally:
        broker.kill()
    assert made.end > made.floor and later.end > made.end
    assert not list((tmp_path / "data").glob(".backup-*"))
    check_restored(tmp_path / "backup", tmp_path / "restored", made, load, ids, told)


def client_pieces(url: str) -> Iterator[bytes]:
    with Client(url) as client:
        yield from client.download("/backup")


def test_a_backup_that_is_cut_off_leaves_nothing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        with Client(broker.url) as client:
            client.publish([{"n": n} for n in range(100)])
        pieces = b"".join(client_pieces(broker.url))
        for end in (0, 3, 100, len(pieces) // 2, len(pieces) - 1):
            with pytest.raises(BackupError):
                receive([pieces[:end]], tmp_path / "backup")
            assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
        made = receive((pieces[at : at + 7] for at in range(0, len(pieces), 7)), tmp_path / "backup")
        assert made.end == 100
        restore(tmp_path / "backup", tmp_path / "restored")


def test_a_lease_holds_the_log_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = FoldStamps()
    stamps.join("store", lambda: 100)
    lease = stamps.lease(10)
    assert stamps.lowest() == 10
    lease.move(50)
    assert stamps.lowest() == 50
    stamps.lease(70)
    lease.end()
    assert stamps.lowest() == 70
    now = time.monotonic()
    monkeypatch.setattr("whimbrel.broker.service.stamps.monotonic", lambda: now + 61)
    assert stamps.lowest() == 100


def test_a_lease_holds_while_the_store_is_sent_however_long_that_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    monkeypatch.setattr("whimbrel.broker.service.stamps.monotonic", lambda: now)
    monkeypatch.setattr(sending, "PIECE_BYTES", 10_000)

    async def work() -> None:
        nonlocal now
        async with opened(tmp_path) as broker:
            await publish(broker, *(event(n) for n in range(10)))
            stamps = FoldStamps()
            stamps.join("store", lambda: 10)
            frames = 0
            for _ in send(tmp_path, broker.log, stamps):
                assert stamps.lowest() == 0
                now += 50.0  # of the 60 for which a lease holds
                frames += 1
            assert frames > 5

    run(work)


def test_a_receiver_that_goes_while_a_frame_is_read_leaves_nothing(tmp_path: Path) -> None:
    is_reading, may_go_on, has_ended = threading.Event(), threading.Event(), threading.Event()

    def slow_frames() -> Generator[bytes, None, None]:
        try:
            is_reading.set()
            may_go_on.wait(30)
            yield b"frame"
        finally:
            has_ended.set()

    async def work() -> None:
        async with opened(tmp_path) as broker:

            async def receive_all() -> None:
                async for _ in backup._frames(broker, slow_frames()):
                    pass

            receiving = asyncio.create_task(receive_all())
            await broker.runtime.in_thread(is_reading.wait)
            receiving.cancel()
            await asyncio.wait([receiving], timeout=0.1)  # it may wait for the read, or not
            may_go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await receiving
            assert await broker.runtime.in_thread(has_ended.wait, 30)

    run(work)


def test_what_a_killed_broker_staged_for_a_backup_is_deleted(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(tmp_path / "data") as broker:
            sent = send(tmp_path / "data", broker.log, broker.retention.stamps)
            next(sent)
            shutil.copytree(tmp_path / "data", tmp_path / "killed")
            assert list((tmp_path / "killed").glob(".backup-*"))
            for _ in sent:
                pass
        async with opened(tmp_path / "killed"):
            assert not list((tmp_path / "killed").glob(".backup-*"))

    run(work)
