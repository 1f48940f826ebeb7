"""Events in, rows out: one event at a time or in blocks, near misses, and results as tables."""
