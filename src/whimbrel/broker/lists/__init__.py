"""Sorted lists of (key, offset) pairs, derived from the log: a subscription's offsets, the offset of an event's id.

They answer "which entries belong to this key" without reading the log, and can be made anew from it.

sorted_run  the pairs of a range of log entries, in memory or in a file
run_set     a set of runs that grows with the log, and merges them
event_ids   which events were published before
lost_keys   the last offset that each key lost when the log was truncated
"""

from whimbrel.broker.lists.run_set import RunSet
from whimbrel.broker.lists.sorted_run import Run

__all__ = ["Run", "RunSet"]
