"""A further access key is a folder and a line in the registry: a toy key is added so, and an index uses it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from whimbrel.engine import access

PROGRAM = """
import random, sys
import whimbrel.engine.access as access
access.__path__.insert(0, sys.argv[1])  # its registry, its kernel and the folder of the key come first
from whimbrel import Filter, Index
draw = random.Random(7)
texts = [f"color = {draw.randrange(9)}" for _ in range(300)]
texts += [f"color = {draw.randrange(9)} OR size = {draw.randrange(9)}" for _ in range(50)]
texts += [f"price < {n} AND size = {draw.randrange(9)}" for n in range(300)]
texts += [f"price BETWEEN {n} AND {n + 9} AND size BETWEEN {n % 5} AND 7" for n in range(300)]
index = Index()
index.add_many(enumerate(texts[:700]))
index.add_many(enumerate(texts[700:], 700))
events = [{"color": draw.randrange(9), "size": [draw.randrange(9), 3], "price": draw.randrange(300)} for _ in range(40)]
events += [{}, {"color": [1, 2, None]}, {"color": "1"}, {"size": 4}]
filters = [Filter.parse(text) for text in texts]
for merged in (False, True):
    if merged:
        index.merge()
    for event in events:
        assert index.match(event) == [n for n, filter in enumerate(filters) if filter.matches(event)], event
    found = index.match_batch(events)
    assert found.num_rows == sum(len(index.match(event)) for event in events)
assert index.stats()["keys"]["toy"] == 400, index.stats()["keys"]
assert [one["key"] for one in index.plan(5)["conjunctions"]] == ["toy"]
print("used")
"""


def test_a_key_is_one_folder_and_one_line(tmp_path: Path) -> None:
    source, folder = Path(access.__file__).parent, tmp_path / "engine" / "access"
    shutil.copytree(Path(__file__).parent / "toy", folder / "toy")
    shutil.copy(source / "kernel.py", folder)  # its compiled form has the calls of all keys
    before = (source / "registry.py").read_text()
    after = before.replace('    "signature",\n', '    "signature",\n    "toy",\n')
    assert len(after.splitlines()) == len(before.splitlines()) + 1
    (folder / "registry.py").write_text(after)
    environment = {**os.environ, "WHIMBREL_WARM_UP": "0"}
    command = [sys.executable, "-W", "error", "-c", PROGRAM, str(folder)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "used\n", done.stderr
