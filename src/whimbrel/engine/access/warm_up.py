"""Which kernels of the engine a second process compiles where nothing is compiled yet, and in which order.

`Index.add_many` begins it, as does an index whose head is due to become a segment. A small index goes on evaluating
its filters while the process runs (`is_evaluated` in `engine/live/segment_set.py`). A large one compiles what loading
needs itself, and its first call of `match` waits for the process. That begins with the kernels of chunks, which loading
uses last, and with `match`, so that both are done at about the same time; the one that waits compiles what encodes
tables. Then the process compiles all that the first use of an index needs (`engine/first_use.py`).
"""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from whimbrel.compiled.jit import entry_for
from whimbrel.compiled.warm_up import WarmUp
from whimbrel.engine.access.bitmap.plan import lay_out
from whimbrel.engine.access.kernel import match
from whimbrel.engine.access.registry import KINDS
from whimbrel.engine.access.shared.plan import Plan, Weights
from whimbrel.ranks.clauses.clauses import Clauses
from whimbrel.ranks.dictionary_builder import Constants, build_dictionary
from whimbrel.ranks.encoding.event_encoder import EventEncoder


def compile_for_matching() -> None:
    """Compile what the first match waits for."""
    with suppress(Exception):
        compile_chunks()
    compile_match()


def compile_match() -> None:
    """Compile `match` for what it is called with: the words of a workspace, two numbers and a flag."""
    entry_for(match, np.empty(0, np.int64), 0, 0, True)


def compile_table_encoding() -> None:
    """Encode a table of a text and a number."""
    import pyarrow as pa

    dictionary = build_dictionary(["a", "b"], [Constants(strings=[["x"]]), Constants(numbers=[1])])
    EventEncoder(dictionary).encode(pa.table({"a": ["x"], "b": [1]}))


def compile_chunks() -> None:
    """Lay out a chunk of one conjunction, of one item."""
    one, zero = np.ones(1, np.int32), np.zeros(1, np.int64)
    flags, none = np.zeros(1, np.uint8), np.empty(0, np.int32)
    clauses = Clauses(["a"], one, flags, np.arange(2), one - 1, flags, one, one, zero, none, none, none)
    weights = Weights(np.ones(1), zero + 3, np.zeros(2, np.int64), np.empty(0, np.float32))
    plan = Plan(clauses, weights, np.ones(1, np.float32), KINDS)
    plan.take("bitmap", zero)
    lay_out(plan)


WARM_UP = WarmUp(match, "whimbrel.engine.first_use:compile_all", compile_table_encoding)
