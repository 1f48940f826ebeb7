"""The program in a folder of its own: run in this process, or in one of its own; and the files that it reads."""

from __future__ import annotations

import gc
import io
import json
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from whimbrel.cli.main import main
from whimbrel.compiled import warm_up


@dataclass(frozen=True)
class Result:
    """How a run ended, and what it wrote."""

    status: int
    raw: bytes
    stderr: str

    @property
    def stdout(self) -> str:
        return self.raw.decode()

    @property
    def lines(self) -> list[Any]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    @property
    def error_lines(self) -> list[Any]:
        """Standard error as JSON lines."""
        return [json.loads(line) for line in self.stderr.splitlines()]

    @property
    def pairs(self) -> list[tuple[int, Any]]:
        """Standard output as sorted pairs of event and subscription."""
        return sorted((line["event"], line["subscription"]) for line in self.lines)


@dataclass(frozen=True)
class Program:
    """The program, run in a folder."""

    folder: Path

    def __call__(self, *arguments: str, stdin: bytes = b"", status: int = 0) -> Result:
        """Run it in this process, which takes a tenth of the time of a new one."""
        return checked(run_here(self.folder, arguments, stdin), status)

    def apart(self, *arguments: str, status: int = 0) -> Result:
        """Run it in a process of its own."""
        command = [sys.executable, "-m", "whimbrel.cli.main", *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, check=False, timeout=600)
        return checked(Result(done.returncode, done.stdout, done.stderr.decode()), status)

    def write(self, name: str, content: bytes | str) -> str:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def write_lines(self, name: str, *items: object) -> str:
        return self.write(name, "".join(json.dumps(item) + "\n" for item in items))

    def read_lines(self, name: str) -> list[Any]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]


class Pipe(io.RawIOBase):
    """Bytes that can be read once and in order only."""

    def __init__(self, content: bytes) -> None:
        self._left = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._left.readinto(buffer)


def run_here(folder: Path, arguments: tuple[str, ...], stdin: bytes = b"") -> Result:
    """Run `main` in a folder, with standard input and outputs of its own."""
    given = io.TextIOWrapper(io.BufferedReader(Pipe(stdin)), encoding="utf-8")
    out, error = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    collecting = gc.get_threshold()
    with (
        chdir(folder),
        patch.object(sys, "argv", ["whimbrel", *arguments]),
        patch.object(sys, "stdin", given),
        patch.object(warm_up, "_told", True),  # as where everything is compiled
        redirect_stdout(out),
        redirect_stderr(error),
    ):
        try:
            main()
            status: Any = 0
        except SystemExit as end:
            status = end.code or 0
        finally:
            gc.set_threshold(*collecting)
    return Result(status, out.buffer.getvalue(), error.buffer.getvalue().decode())


def checked(result: Result, status: int) -> Result:
    assert "Traceback" not in result.stderr, result.stderr
    assert result.status == status, (result.status, result.stdout[-2_000:], result.stderr)
    return result
