"""Runs the real program in a folder of its own, and writes the files that it reads."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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
        command = [sys.executable, "-m", "whimbrel.cli.main", *arguments]
        done = subprocess.run(command, cwd=self.folder, input=stdin, capture_output=True, check=False, timeout=600)
        result = Result(done.returncode, done.stdout, done.stderr.decode())
        assert "Traceback" not in result.stderr, result.stderr
        assert result.status == status, (result.status, result.stdout[-2_000:], result.stderr)
        return result

    def write(self, name: str, content: bytes | str) -> str:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    def write_lines(self, name: str, *items: object) -> str:
        return self.write(name, "".join(json.dumps(item) + "\n" for item in items))

    def read_lines(self, name: str) -> list[Any]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]
