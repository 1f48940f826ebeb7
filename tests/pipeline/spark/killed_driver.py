"""The program `cluster_driver.py` in a process that tests watch and kill, and what its streams must give."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

import whimbrel
from tests.pipeline.publishing import publish
from tests.pipeline.spark.cluster_driver import PER_BATCH
from tests.process_tree import command_of, processes_below
from tests.publications.model import ARROW, FILTERS, LATER, Model, Told, history
from whimbrel import Index
from whimbrel.log import LogWriter
from whimbrel.pipeline import IndexStore
from whimbrel.pipeline.index.batches import recorded

_PATIENCE = 600.0  # seconds; far above what a loaded machine needs
_UPDATES = 60  # updates of a micro-batch

EXECUTOR, WORKER = "CoarseGrainedExecutorBackend", "pyspark.daemon"


class Stream:
    """The folder of a stream: its input, an index whose versions are numbered from 1, checkpoint and output."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.versions = 0
        self.publish()

    def filters(self, version: int) -> dict[Any, str]:
        """The filters of a version of the index, by id."""
        raise NotImplementedError

    def version_of(self, batch: int) -> int:
        """The version of the index that a micro-batch was matched with."""
        raise NotImplementedError

    def check(self) -> None:
        """Assert that the output is that of an undisturbed run."""
        raise NotImplementedError

    def publish(self) -> None:
        """Publish another version of the index."""
        self.versions += 1
        assert publish(self.folder / "index", self.filters(self.versions)) == self.versions

    def begun(self) -> int:
        """The number of the micro-batch that runs now; -1 between two."""
        offsets, commits = (self.numbers(name) for name in ("offsets", "commits"))
        return max(offsets) if offsets and max(offsets) not in commits else -1

    def numbers(self, name: str) -> set[int]:
        """The micro-batches that have begun (`offsets`) or are done (`commits`)."""
        folder = self.folder / "checkpoint" / name
        return {int(one) for one in os.listdir(folder) if one.isdecimal()} if folder.is_dir() else set()

    def rows(self, *columns: str) -> Counter[Any]:
        """The rows of the files that the sink's own log counts in; others may be there, of attempts that failed."""
        log = self.folder / "out" / "_spark_metadata"
        batches = sorted((int(file.name.partition(".")[0]), file) for file in log.iterdir() if file.name[0].isdecimal())
        lines: list[str] = []
        for _, file in batches:
            entries = file.read_text().splitlines()[1:]
            lines = entries if file.suffix == ".compact" else lines + entries
        found: Counter[Any] = Counter()
        for line in lines:
            table = pq.read_table(json.loads(line)["path"].removeprefix("file://")).select(columns)
            found.update(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return found


class MatchStream(Stream):
    """`match_stream` over a log of some batches."""

    def __init__(self, folder: Path, batches: int) -> None:
        super().__init__(folder)
        draw = random.Random(7)
        self.events = [{"a": draw.randrange(100), "b": draw.randrange(5)} for _ in range(batches * PER_BATCH)]
        with LogWriter(folder / "log") as writer:
            writer.append_many((json.dumps(event).encode(), None) for event in self.events).result()

    def filters(self, version: int) -> dict[Any, str]:
        """Other filters in each version, so that a batch that was matched twice differently would show."""
        draw = random.Random(version)
        numbers = range(version * 1_000, version * 1_000 + 50)
        return {number: f"a < {draw.randrange(100)} AND b != {draw.randrange(5)}" for number in numbers}

    def begun(self) -> int:
        """A task of the micro-batch runs: it has recorded the version."""
        batch = super().begun()
        return batch if any((self.folder / "index" / "batches").glob(f"*/{batch:010}.json")) else -1

    def version_of(self, batch: int) -> int:
        ((_, records),) = recorded(IndexStore(self.folder / "index")).items()
        return dict(records)[batch]

    def check(self) -> None:
        """Each pair of each batch is in the sink once, matched against the version that the batch recorded."""
        expected: Counter[tuple[int, int]] = Counter()
        for batch, first in enumerate(range(0, len(self.events), PER_BATCH)):
            index = Index()
            index.add_many(self.filters(self.version_of(batch)).items())
            pairs = index.match_batch(self.events[first : first + PER_BATCH])
            rows, ids = (column.to_pylist() for column in pairs.columns)
            expected.update(zip((first + row for row in rows), ids, strict=True))
        assert self.rows("offset", "subscription") == expected
        assert set(expected.values()) == {1}


class TransitionStream(Stream):
    """`transitions` over files of updates, one for each micro-batch."""

    def __init__(self, folder: Path, batches: int) -> None:
        super().__init__(folder)
        rows = history(batches, batches * _UPDATES, keys=25)
        self.batches = [rows[first : first + _UPDATES] for first in range(0, len(rows), _UPDATES)]
        (folder / "in").mkdir()
        for number, batch in enumerate(self.batches):
            file = folder / "in" / f"{number:03}.parquet"
            pq.write_table(pa.Table.from_pylist(batch, ARROW), file)
            os.utime(file, (number + 1.0, number + 1.0))

    def filters(self, version: int) -> dict[Any, str]:
        return LATER if version % 2 == 0 else FILTERS

    def version_of(self, batch: int) -> int:
        lines = (self.folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
        (version,) = (json.loads(line)["version"] for line in lines if line.startswith('{"version"'))
        return int(version)

    def check(self) -> None:
        """The sink has what the model tells, with the versions that the checkpoint says batches began to use."""
        model, expected = Model(leave=True, partial=True), Counter[Told]()
        for number, batch in enumerate(self.batches):
            version = self.version_of(number)
            if version > model.version:
                expected.update(model.publish(self.filters(version), version))
            expected.update(model.update(batch))
        assert self.rows("key", "subscription", "kind", "sequence", "index_version") == expected


class KilledDriver:
    """The driver, and its two streams in `folder`; `python` is the interpreter of the executors."""

    def __init__(self, folder: Path, master: str, python: Path, batches: int) -> None:
        self.folder, self.master, self.python = folder, master, python
        self.match = MatchStream(folder / "match", batches)
        self.transitions = TransitionStream(folder / "transitions", batches)
        self.driver: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        """End what is left of the driver's process group."""
        if self.driver is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()

    def start(self) -> None:
        """Start the driver in a process group of its own, with its words in a file."""
        command = [sys.executable, "-m", "tests.pipeline.spark.cluster_driver", str(self.folder), self.master]
        environment = {**os.environ, "PYSPARK_PYTHON": str(self.python), "PYSPARK_DRIVER_PYTHON": sys.executable}
        # Spark plans the batches of a log in a Python of its own beside the driver, to which nothing is sent.
        environment["PYTHONPATH"] = str(Path(whimbrel.__file__).parents[1])
        with (self.folder / "driver.txt").open("ab") as words:
            self.driver = subprocess.Popen(command, stdout=words, stderr=words, start_new_session=True, env=environment)

    def finish(self) -> None:
        """Wait for the driver to end by itself, then check the output of both streams."""
        assert self.driver is not None
        assert self.driver.wait(_PATIENCE) == 0, self._words()
        self.match.check()
        self.transitions.check()

    def wait_for(self, batch: int) -> None:
        """Return when the stream of matches has come to this micro-batch."""
        self._wait(lambda: batch in self.match.numbers("offsets"), f"batch {batch}")

    def restart(self) -> tuple[int, int]:
        """Kill the driver within a micro-batch of each stream, publish versions, and start it again.

        Return the micro-batches that were cut off: they must not see these versions, later ones must. Python and Java
        of the driver are killed at once, as when its machine stops; executors lose it and end.
        """
        cut = (-1, -1)

        def look() -> bool:
            nonlocal cut
            cut = self.match.begun(), self.transitions.begun()
            return min(cut) >= 0

        self._wait(look, "a micro-batch of both streams")
        assert self.driver is not None
        java = [number for number in processes_below(self.driver.pid) if "SparkSubmit" in command_of(number)]
        assert java
        for number in [self.driver.pid, *java]:
            os.kill(number, signal.SIGKILL)
        self.driver.wait()
        self._publish()
        self.start()
        return cut

    def kill(self, name: str) -> None:
        """Kill an executor or a Python worker, and publish versions."""
        found: list[int] = []

        def look() -> bool:
            found[:] = [number for number in processes_below(os.getpid()) if self._is_executor(number, name)]
            return bool(found)

        self._wait(look, name)
        with contextlib.suppress(ProcessLookupError):
            os.kill(found[-1], signal.SIGKILL)  # the last is a worker, not the daemon that forked it
        self._publish()

    def kill_at_any_time(self, seed: int, batches: int) -> None:
        """Kill drivers, executors and workers at random moments of every third micro-batch, then check the output."""
        draw = random.Random(seed)
        for batch in range(1, batches - 2, 3):
            self.wait_for(batch)
            time.sleep(draw.random() * 0.5)
            kind = draw.choice([EXECUTOR, WORKER, "driver"])
            if kind == "driver":
                self.restart()
            else:
                self.kill(kind)
        self.finish()

    def _publish(self) -> None:
        self.match.publish()
        self.transitions.publish()

    def _is_executor(self, number: int, name: str) -> bool:
        """Whether a process has this name in its command, and runs in the directory of an executor of the cluster."""
        try:
            return name in command_of(number) and str(self.folder / "work") in os.readlink(f"/proc/{number}/cwd")
        except OSError:
            return False

    def _wait(self, happened: Callable[[], bool], what: str) -> None:
        assert self.driver is not None
        until = time.monotonic() + _PATIENCE
        while not happened():
            assert self.driver.poll() is None, f"the driver ended before {what}: {self._words()}"
            assert time.monotonic() < until, f"waited in vain for {what}: {self._words()}"
            time.sleep(0.005)

    def _words(self) -> str:
        return (self.folder / "driver.txt").read_text()[-5_000:]
