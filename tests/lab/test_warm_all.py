"""What the warm-up compiles: afterwards a process that loads filters, or routes events, compiles nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

LOADS = """
import sys
from random import Random
from whimbrel import Index
from whimbrel.compiled.cache import CompiledCache
from whimbrel.lab import warm_all
from whimbrel.lab.measure.cliff_forms import LOAD_FORMS, SourceFields
from whimbrel.lab.workloads import make

def compiled():
    found = {}
    for name, module in list(sys.modules.items()):
        for kernel in vars(module).values() if name.startswith("whimbrel.") else ():
            if isinstance(getattr(kernel, "_cache", None), CompiledCache):
                found[kernel.__module__, kernel.__name__] = list(kernel.signatures)
    return found

warm_all._load()
for name, parameters in warm_all._WORKLOADS.items():
    warm_all._match(make(name, **parameters))
warm_all._overlay()
before = compiled()
for form in LOAD_FORMS:
    source = Random(form.name)
    texts = [form.filter.format_map(SourceFields(source)) for _ in range(100)]
    for ids in (range(100), map(str, range(100))):
        index = Index()
        index.add_many(list(zip(ids, texts)))
        index.merge()
for name in ("mixed", "lesubscribe", "hm"):
    Index().add_many(make(name, n=6_000, events=10).subscriptions)
after = compiled()
print(sorted(name for name in after if after[name] != before.get(name, [])))
tree = "whimbrel.overlay.tree.tree_kernels"
print(sum(map(bool, before.values())), all(before[tree, name] for name in ("match_tree", "forward_coded")))
"""


def test_after_it_loads_compile_nothing_whatever_the_form() -> None:
    done = subprocess.run([sys.executable, "-c", LOADS], cwd=ROOT, capture_output=True, text=True, check=True)
    compiled, warm = done.stdout.splitlines()
    assert compiled == "[]"
    count, has_overlay = warm.split()
    assert int(count) > 50 and has_overlay == "True"
