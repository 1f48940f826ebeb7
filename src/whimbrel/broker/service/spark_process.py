"""The job on Spark as a child of the broker: started through the command line, watched, and ended with the broker.

The child gets a token of its own, which lives as long as the broker's process. It ends when its standard input closes,
so it does not outlive a broker that is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import msgspec

from whimbrel.broker.requests.settings import Settings

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
"""Seconds between two starts: they double while the job fails at once."""
STEADY_SECONDS = 60.0
"""Seconds after which a job counts as steady: when it ends, it starts again after the first pause."""
STOP_SECONDS = 10.0
"""How long the job may take to end."""
LINE_BYTES = 1 << 20
"""A line that the job says, at most."""

logger = logging.getLogger("whimbrel.spark")


class _Batch(msgspec.Struct):
    """What the job says of a range that it has matched."""

    batch: int
    milliseconds: int


class SparkProcess:
    """Keeps the job running. Used in the event loop."""

    def __init__(self, settings: Settings, token: str) -> None:
        self._settings = settings
        self._token = token
        self._child: Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.restarts = 0
        self.batch_seconds = 0.0
        """How long the last range took."""

    def start(self, address: str) -> None:
        """Start the job, for the broker that listens at an address."""
        self._task = asyncio.get_running_loop().create_task(self._run(self.command(address)))

    async def stop(self) -> None:
        """End the job: politely, then at once."""
        self._stopping = True
        if self._child is not None and self._child.returncode is None:
            self._child.terminate()
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await self._child.wait()
            except TimeoutError:
                self._child.kill()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def command(self, address: str) -> list[str]:
        """The command that runs the job. It reads the log from its directory, which is on this host."""
        data = Path(self._settings.data).absolute()
        command = [sys.executable, "-m", "whimbrel.cli.main", "pipeline", "broker", "--supervised", "--json"]
        command += ["--url", address, "--log", str(data / "log"), "--index", str(data / "spark")]
        if self._settings.tls_certificate is not None:
            command += ["--ca", self._settings.tls_certificate, "--pinned"]
        if self._settings.spark_master is not None:
            command += ["--master", self._settings.spark_master]
        for setting in self._settings.spark_settings:
            command += ["--settings", setting]
        return command

    async def _run(self, command: list[str]) -> None:
        pause = FIRST_PAUSE
        while not self._stopping:
            began = monotonic()
            try:
                end = f"ended with status {await self._run_once(command)}"
            except OSError as error:  # no memory for another process, or no such program
                end = f"could not be started ({error})"
            if self._stopping:
                return
            pause = FIRST_PAUSE if monotonic() - began > STEADY_SECONDS else pause
            logger.warning("the job on Spark %s, and starts again in %g s", end, pause)
            self.restarts += 1
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _run_once(self, command: list[str]) -> int:
        """Run the job until it ends, and return its status."""
        child = self._child = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=os.environ | {"WHIMBREL_TOKEN": self._token},
            limit=LINE_BYTES, start_new_session=True,
        )  # fmt: skip
        logger.info("the job on Spark starts as process %d", child.pid)
        assert child.stdout is not None and child.stderr is not None
        await asyncio.gather(_each_line(child.stdout, self._said), _each_line(child.stderr, _complained))
        return await child.wait()

    def _said(self, line: bytes) -> None:
        try:
            self.batch_seconds = msgspec.json.decode(line, type=_Batch).milliseconds / 1_000
        except msgspec.DecodeError:
            logger.info("%s", line.decode(errors="replace"))


def _complained(line: bytes) -> None:
    logger.warning("%s", line.decode(errors="replace"))


async def _each_line(stream: asyncio.StreamReader, take: Callable[[bytes], None]) -> None:
    while True:
        try:
            line = await stream.readline()
        except ValueError:  # longer than LINE_BYTES
            continue
        if not line:
            return
        if line.strip():
            take(line.rstrip())


def child_address(scheme: str, host: str, port: int) -> str:
    """Where a child on this host reaches a broker that listens on an address, which may be that of all interfaces."""
    own = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://{f'[{own}]' if ':' in own else own}:{port}"
