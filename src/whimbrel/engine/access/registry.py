"""The list of access keys, and the order in which the arrays of a segment are passed to the kernel."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from whimbrel.engine.access.shared.arrays import SharedArrays
from whimbrel.engine.access.shared.key import AccessKey, KeyArrays
from whimbrel.ranks.kernel_arrays import END_AT

FOLDERS = (
    "sorted",
    "hash",
    "bitmap",  # takes all that is left; signature may still outbid it
    "signature",
)
"""The package of each key, in the order in which keys are asked to take conjunctions."""

KEYS: tuple[AccessKey, ...] = tuple(import_module(f"whimbrel.engine.access.{folder}").KEY for folder in FOLDERS)
KINDS = tuple(name for key in KEYS for name in key.names)
"""The names of keys in `Index.stats` and `Index.plan`."""
SHARED = KeyArrays(SharedArrays, "", stored={"records": "hash_records"})
GROUPS = (SHARED, *(key.arrays for key in KEYS))
"""The arrays of a segment that kernels read: the shared ones, then those of each key."""
PLACES = np.cumsum([END_AT, *(group.kind.words for group in GROUPS)]).tolist()
"""Where each group begins among the words of the kernel, and where they end."""
