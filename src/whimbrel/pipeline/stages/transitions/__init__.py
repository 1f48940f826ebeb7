"""The stage for publications: keyed updates in, transitions out. `whimbrel.publications` does the work of a bucket.

`update_cells.py` sends updates to their buckets, and `version_source.py` new versions of the index. `processor.py` runs
the buckets with their state in Spark's state store, and `worker_cache.py` keeps them in memory.
"""
