"""How kernels are compiled and kept: helpers inside, stale and unwritable caches survived."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
import numpy as np
from whimbrel.compiled.jit import helper, kernel, quick_kernel

@helper
def inner(values, by):
    total = 0
    for i in range(values.size):
        total += values[i] * by
    return total

@helper
def middle(values):
    return inner(values, 2) + inner(values, 3)

@kernel
def outer(values):
    return middle(values) if values.size else -1

@quick_kernel
def other(values):
    return inner(values, 10)
"""
PROGRAM = """
import numpy as np, sample
a = np.arange(5)
print(sample.outer(a), sample.outer(a[:0]), sample.other(a))
for one in (sample.outer, sample.other):
    stats = one.stats
    print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


class Sample:
    """A module with kernels in a directory of its own, and runs of a program that calls them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.compiled = folder / "compiled"
        (folder / "sample.py").write_text(MODULE)

    def run(self, program: str = PROGRAM, **settings: str) -> list[str]:
        source = str(Path(__file__).parents[2] / "src")
        environment = {
            **os.environ,
            "NUMBA_CACHE_DIR": str(self.compiled),
            "PYTHONPATH": os.pathsep.join([str(self.folder), source]),
            **settings,
        }
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[:-1]

    def indexes(self) -> list[Path]:
        return sorted(self.compiled.rglob("*.nbi"))


@pytest.fixture
def sample(tmp_path: Path) -> Sample:
    return Sample(tmp_path)


FRESH = ["50 -1 100", "0 1", "0 1"]
FROM_DISK = ["50 -1 100", "1 0", "1 0"]


def test_kernels_are_kept_with_their_helpers_inside(sample: Sample) -> None:
    assert sample.run() == FRESH
    assert [path.name.split("-")[0] for path in sample.indexes()] == ["sample.other", "sample.outer"]
    assert sample.run() == FROM_DISK


def test_what_names_things_that_are_gone_is_compiled_anew(sample: Sample) -> None:
    assert sample.run() == FRESH
    index = sample.indexes()[1]
    with index.open("rb") as file:
        version = pickle.load(file)
    gone = pickle.dumps(version) + b"cwhimbrel.engine.jit\nNoSuchClass\n."
    index.write_bytes(gone)
    assert sample.run() == ["50 -1 100", "0 1", "1 0"]
    assert sample.run() == FROM_DISK


def test_a_torn_file_is_compiled_anew(sample: Sample) -> None:
    assert sample.run() == FRESH
    index, other = sample.indexes()
    index.write_bytes(b"")
    data = other.with_name(other.name.replace(".nbi", ".1.nbc"))
    data.write_bytes(data.read_bytes()[:-100])
    assert sample.run() == FRESH
    assert sample.run() == FROM_DISK


def test_without_a_place_to_write_every_process_compiles(sample: Sample) -> None:
    blocked = sample.folder / "file"
    blocked.write_text("in the way")
    (sample.folder / "__pycache__").write_text("in the way too")
    nowhere = {"NUMBA_CACHE_DIR": str(blocked), "HOME": str(blocked), "XDG_CACHE_HOME": str(blocked)}
    assert sample.run(**nowhere) == FRESH
    assert sample.run(**nowhere) == FRESH


def test_what_cannot_be_kept_works_all_the_same(sample: Sample) -> None:
    blocked = f"""
import shutil, sample
folder = {str(sample.compiled)!r}
assert sample.outer._cache.index_path.startswith(folder)
shutil.rmtree(folder)
open(folder, "w").close()
"""
    assert sample.run(blocked + PROGRAM) == FRESH


def test_functions_stay_as_they_are_where_compiling_is_switched_off(sample: Sample) -> None:
    program = PROGRAM.split("\nfor", maxsplit=1)[0] + "\nprint(sample.inner(a, 1))"
    assert sample.run(program, NUMBA_DISABLE_JIT="1") == ["50 -1 100", "10"]


def test_a_change_to_a_helper_in_another_file_is_noticed_by_its_content(sample: Sample) -> None:
    helper_file = sample.folder / "below.py"
    helper_file.write_text("from whimbrel.compiled.jit import helper\n\n@helper\ndef below(n):\n    return n + 1\n")
    (sample.folder / "above.py").write_text(
        "from below import below\nfrom whimbrel.compiled.jit import kernel\n\n"
        "@kernel\ndef above(n):\n    return below(n)\n"
    )
    program = "from above import above; print(above(5)); print(sum(above.stats.cache_hits.values()))"
    assert sample.run(program) == ["6", "0"]
    assert sample.run(program) == ["6", "1"]
    before = helper_file.stat()
    helper_file.write_text(helper_file.read_text().replace("n + 1", "n + 2"))
    os.utime(helper_file, ns=(before.st_atime_ns, before.st_mtime_ns + 2_000_000_000))  # for Python's own cache
    assert sample.run(program) == ["7", "0"]


def test_constants_do_not_make_a_helper_again_and_collecting_goes_on_after_compiling(sample: Sample) -> None:
    program = """
import gc, numpy as np, sample
from whimbrel.compiled.jit import kernel
assert gc.isenabled()
sample.outer(np.arange(5))
print(len(sample.inner.overloads), gc.isenabled())
wrong = kernel(lambda values: values.nothing)
try:
    wrong(np.arange(5))
except Exception as error:
    print(type(error).__name__, gc.isenabled())
gc.disable()
sample.other(np.arange(5))
print(gc.isenabled())
"""
    assert sample.run(program) == ["1 True", "TypingError True", "False"]
