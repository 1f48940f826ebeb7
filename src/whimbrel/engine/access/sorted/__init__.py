"""Sorted keys: one-sided ranges, whose candidates are a run of a sorted array."""

from whimbrel.engine.access.shared.key import AccessKey
from whimbrel.engine.access.sorted.kernel import match_sorted
from whimbrel.engine.access.sorted.plan import SORTED, claim, decode, explain, lay_out

KEY = AccessKey(("sorted",), SORTED, lay_out, decode, explain, claim=claim, match_event=match_sorted)
