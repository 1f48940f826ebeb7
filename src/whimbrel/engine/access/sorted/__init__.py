"""Sorted keys: one-sided ranges, whose candidates are a run of a sorted array."""
