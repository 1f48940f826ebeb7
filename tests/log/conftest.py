"""What several tests of the log begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from whimbrel.log import LogWriter


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 100 entries."""
    with LogWriter(tmp_path / "log") as writer:
        writer.append_many((b"event %d" % number, [number]) for number in range(100)).result()
    return tmp_path / "log"
