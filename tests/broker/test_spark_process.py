"""The job on Spark as a child: it is started again, whatever ended it."""

from __future__ import annotations

import asyncio
import sys

import pytest

from whimbrel.broker.requests.settings import Settings
from whimbrel.broker.service import spark_process
from whimbrel.broker.service.spark_process import SparkProcess


@pytest.mark.parametrize("command", [["/nowhere/program"], [sys.executable, "-c", "raise SystemExit(3)"]])
def test_a_job_that_ends_or_cannot_be_started_is_started_again(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_process, "FIRST_PAUSE", 0.01)

    async def work() -> None:
        job = SparkProcess(Settings(), "token")
        monkeypatch.setattr(job, "command", lambda _: command)
        job.start("http://127.0.0.1:1")
        async with asyncio.timeout(20):
            while job.restarts < 3:
                await asyncio.sleep(0.01)
        await job.stop()

    asyncio.run(work())
