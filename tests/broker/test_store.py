"""The store when its disk refuses: the error says so, and nothing of the change is there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import resource, signal, sqlite3, sys
from pathlib import Path
from whimbrel.broker.requests.entries import TokenPut
from whimbrel.broker.store import Cursor, Store

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store(Path(sys.argv[1]) / "broker.sqlite", "ab" * 16)
change = TokenPut("mine", "d" * int(sys.argv[2]), ["admin"], "", {})
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
for _ in range(2):
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, hard))
    try:
        store.apply([(0, change)], 1)
    except sqlite3.OperationalError as error:
        assert "rollback" not in str(error) and "transaction" not in str(error), error
    else:
        raise AssertionError("expected a full disk")
    assert store.stamp == 0 and store.tokens() == []
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
store.apply([(0, change)], 1)
assert store.stamp == 1 and len(store.tokens()) == 1
"""


def test_a_change_that_the_disk_refuses_leaves_nothing_and_is_taken_later(tmp_path: Path) -> None:
    """The limit on file sizes makes real writes fail, as a full disk does: in the middle of a change, or at its end."""
    for size in (300_000, 1_000_000, 60_000_000):
        (tmp_path / str(size)).mkdir()
        arguments = [sys.executable, "-c", SCRIPT, str(tmp_path / str(size)), str(size)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (size, done.stderr)
