"""How many modules the two hot walks of docs/architecture.md pass, so that they do not grow unseen.

Modules are counted by the Python functions and kernels that are called; what kernels call among themselves is not seen.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import whimbrel
from whimbrel import Index
from whimbrel.lab.workloads import mixed
from whimbrel.language.sql.leaves import read_leaf

ROOT = str(Path(whimbrel.__file__).parent)
TEXT_TO_SEGMENT = 43
DICT_TO_IDS = 10


def modules_of(walk: Callable[[], object]) -> set[str]:
    """The modules of which a call calls some function, in this thread or in one that it starts."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code.co_filename)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return {name.removeprefix(ROOT) for name in seen if name.startswith(ROOT)}


def test_a_text_becomes_part_of_a_segment_and_a_dict_becomes_ids_in_few_modules() -> None:
    workload = mixed(5_000, events=10)
    event = {name: value for name, value in workload.events.to_pylist()[0].items() if value is not None}
    warm = Index()
    warm.add_many(workload.subscriptions)
    warm.match(event)
    read_leaf.cache_clear()
    index = Index()
    passed = modules_of(lambda: index.add_many(workload.subscriptions))
    assert len(passed) <= TEXT_TO_SEGMENT, sorted(passed)
    index.match(event)
    passed = modules_of(lambda: index.match(event))
    assert len(passed) <= DICT_TO_IDS, sorted(passed)
