"""What begins the second process that compiles the engine's kernels where nothing is compiled yet, and who waits.

`Index.add_many` begins it, as does an index whose head is due to become a segment. A small index goes on evaluating
its filters while the process runs (`is_evaluated` in `engine/live/segment_set.py`). A large one compiles what reads
filters and events; the process compiles what plans a segment, then `match`, whose first call waits for it
(`engine/first_use.py`). The one that waits compiles what encodes tables.
"""

from __future__ import annotations

import numpy as np

from whimbrel.compiled.jit import entry_for
from whimbrel.compiled.warm_up import WarmUp
from whimbrel.engine.access.kernel import match
from whimbrel.ranks.dictionary_builder import Constants, build_dictionary
from whimbrel.ranks.encoding.event_encoder import EventEncoder


def compile_match() -> None:
    """Compile `match` for what it is called with: the words of a workspace, two numbers and a flag."""
    entry_for(match, np.empty(0, np.int64), 0, 0, True)


def compile_table_encoding() -> None:
    """Encode a table of a text and a number."""
    import pyarrow as pa

    dictionary = build_dictionary(["a", "b"], [Constants(strings=[["x"]]), Constants(numbers=[1])])
    EventEncoder(dictionary).encode(pa.table({"a": ["x"], "b": [1]}))


WARM_UP = WarmUp(match, "whimbrel.engine.first_use:compile_all", compile_table_encoding)
