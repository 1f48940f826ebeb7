"""Sorted lists of (key, offset) pairs, derived from the log: a subscription's offsets, the offset of an event's id.

They answer "which entries belong to this key" without reading the log, and can be made anew from it.
"""

from whimbrel.broker.lists.run_set import RunSet
from whimbrel.broker.lists.sorted_run import Run

__all__ = ["Run", "RunSet"]
