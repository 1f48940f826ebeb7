"""A file that is larger than the memory of the process is matched, whether it is mapped, compressed or piped."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LINES = 1_000 * (json.dumps({"a": 1, "text": "y" * 2_000, "nested": {"b": "x"}}).encode() + b"\n")
BLOCKS = 160
"""Of the file that is larger than all memory of the process."""
STREAMED = 50
"""Of what is compressed or piped: more than the process may grow by."""
ENVIRONMENT = {**os.environ, "MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Without reserves of the allocators, which would be room to grow."""
PROGRAM = """
import os, resource, sys
from whimbrel import Index
from whimbrel.readers.match_files import match_files

index = Index()
index.add_many([(1, "a = 1"), (2, "nested.b LIKE '%x%'"), (3, "a = 2")])

def matched(name):
    return sum(block.pairs.num_rows for block in match_files(index, [name], None))

def limit(kind, field):
    with open("/proc/self/status") as status:
        used = next(int(line.split()[1]) << 10 for line in status if line.startswith(field))
    resource.setrlimit(kind, (used + (64 << 20),) * 2)
    return used + (64 << 20)

small, big, packed = sys.argv[1:]
matched(small)
assert limit(resource.RLIMIT_DATA, "VmData") < os.path.getsize(big)
print(matched(big), matched(packed))
limit(resource.RLIMIT_AS, "VmSize")  # now the file cannot be mapped
print(matched(big), matched("-"))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_memory_is_bounded(tmp_path: Path) -> None:
    for name, block, blocks in (
        ("small", LINES, 1),
        ("big", LINES, BLOCKS),
        ("packed", gzip.compress(LINES, 1), STREAMED),
    ):
        with (tmp_path / name).open("wb") as stream:
            for _ in range(blocks):
                stream.write(block)
    command = [sys.executable, "-c", PROGRAM, "small", "big", "packed"]
    piped = ["head", "-c", str(STREAMED * len(LINES)), "big"]
    with subprocess.Popen(piped, cwd=tmp_path, stdout=subprocess.PIPE) as source:
        done = subprocess.run(
            command, cwd=tmp_path, stdin=source.stdout, capture_output=True, text=True, check=False, env=ENVIRONMENT
        )
    (tmp_path / "big").unlink()
    assert done.returncode == 0, done.stderr[-2_000:]
    assert done.stdout.split() == 2 * [str(2 * 1_000 * BLOCKS), str(2 * 1_000 * STREAMED)]
