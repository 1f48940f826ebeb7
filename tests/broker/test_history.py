"""Early matches: the log is searched, and what was found is kept."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.broker.inside import event, ids_of, opened, publish, run, subscribe
from whimbrel.broker.delivery import history


def test_early_matches_that_the_disk_refuses_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def first() -> None:
        async with opened(tmp_path) as broker:
            await publish(broker, *(event(number) for number in range(20)))
            held = await subscribe(broker, "TRUE", start="beginning")
            with monkeypatch.context() as patch:
                patch.setattr(history, "write_file", refuse)
                assert await ids_of(broker, held) == [str(number) for number in range(20)]
            assert list((tmp_path / "history").iterdir()) == []

    async def again() -> None:
        async with opened(tmp_path) as broker:
            (held,) = broker.store.subscriptions("", 9)
            assert await ids_of(broker, held) == [str(number) for number in range(20)]
            assert len(list((tmp_path / "history").iterdir())) == 1

    run(first)
    run(again)
