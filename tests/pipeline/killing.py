"""Drivers of streaming queries in processes of their own, which tests watch and kill."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from tests.pipeline.kernels import compile_kernels
from tests.pipeline.publishing import publish
from tests.process_tree import command_of, processes_below

_PATIENCE = 600.0  # seconds; far above what a loaded machine needs

EXECUTOR, WORKER = "CoarseGrainedExecutorBackend", "pyspark.daemon"


class KilledDriver:
    """A driver process in a folder with its input, an index whose versions are numbered from 1, and its output."""

    program: tuple[str, ...]
    """The module to run, and its arguments after the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions = 0
        self.driver: subprocess.Popen[bytes] | None = None
        compile_kernels()
        self.publish()

    def filters(self, version: int) -> dict[Any, str]:
        """The filters of a version of the index, by id."""
        raise NotImplementedError

    def has_begun(self, batch: int) -> bool:
        """Whether a micro-batch has begun."""
        raise NotImplementedError

    def check(self) -> None:
        """Assert that the output is that of an undisturbed run."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def publish(self) -> None:
        """Publish another version of the index."""
        self.versions += 1
        assert publish(self.folder / "index", self.filters(self.versions)) == self.versions

    def start(self) -> None:
        """Start the driver in a process group of its own, with its words in a file."""
        module, *arguments = self.program
        command = [sys.executable, "-m", module, str(self.folder), *arguments]
        with (self.folder / "driver.txt").open("ab") as words:
            self.driver = subprocess.Popen(command, stdout=words, stderr=words, start_new_session=True)

    def wait_for_batch(self, batch: int) -> None:
        """Return when this micro-batch has begun."""
        self._wait(lambda: self.has_begun(batch), f"batch {batch}")

    def wait_for_processes(self, name: str) -> list[int]:
        """The numbers of processes below the driver whose command contains `name`, when there are any."""
        found: list[int] = []

        def look() -> bool:
            found[:] = [number for number in self._below() if name in command_of(number)]
            return bool(found)

        self._wait(look, name)
        return found

    def finish(self) -> None:
        """Wait for the driver to end by itself."""
        assert self.driver is not None
        assert self.driver.wait(_PATIENCE) == 0, self._words()

    def kill_driver(self) -> None:
        """Python and Java of the driver at once, as when its machine stops; executors lose it and end."""
        assert self.driver is not None
        java = [number for number in self._below() if "SparkSubmit" in command_of(number)]
        assert java
        for number in [self.driver.pid, *java]:
            os.kill(number, signal.SIGKILL)
        self.driver.wait()

    def close(self) -> None:
        """End what is left of the driver's process group."""
        if self.driver is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()

    def restart_in(self, batch: int) -> None:
        """Kill the driver in a micro-batch, publish a version, and start it again.

        The micro-batch that was cut off must not see this version, later ones must.
        """
        self.wait_for_batch(batch)
        self.kill_driver()
        self.publish()
        self.start()

    def kill_in(self, batch: int, name: str) -> None:
        """Kill an executor or a Python worker in a micro-batch, and publish a version."""
        self.wait_for_batch(batch)
        for number in self.wait_for_processes(name)[-1:]:  # the last is a worker, not the daemon that forked it
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.publish()

    def kill_at_any_time(self, seed: int, batches: int) -> None:
        """Kill drivers, executors and workers at random moments of every third micro-batch, then check the output."""
        draw = random.Random(seed)
        for batch in range(1, batches - 2, 3):
            self.wait_for_batch(batch)
            time.sleep(draw.random() * 0.5)
            kind = draw.choice([EXECUTOR, WORKER, "driver"])
            if kind == "driver":
                self.restart_in(batch)
            else:
                self.kill_in(batch, kind)
        self.finish()
        self.check()

    def _below(self) -> Iterator[int]:
        assert self.driver is not None
        return processes_below(self.driver.pid)

    def _wait(self, happened: Callable[[], bool], what: str) -> None:
        assert self.driver is not None
        until = time.monotonic() + _PATIENCE
        while not happened():
            assert self.driver.poll() is None, f"the driver ended before {what}: {self._words()}"
            assert time.monotonic() < until, f"waited in vain for {what}: {self._words()}"
            time.sleep(0.005)

    def _words(self) -> str:
        return (self.folder / "driver.txt").read_text()[-5_000:]


def committed(out: Path) -> list[str]:
    """The files that the sink's own log counts in; others may be there, of attempts that failed."""
    log = out / "_spark_metadata"
    batches = sorted((int(file.name.partition(".")[0]), file) for file in log.iterdir() if file.name[0].isdecimal())
    lines: list[str] = []
    for _, file in batches:
        entries = file.read_text().splitlines()[1:]
        lines = entries if file.suffix == ".compact" else lines + entries
    return [json.loads(line)["path"].removeprefix("file://") for line in lines]
