"""The index on disk that all workers share.

`compile.py` compiles a table of subscriptions, bucket by bucket (`shards.py`), and publishes a version (`store.py`).
`workers.py` opens versions on workers. `batches.py` records which version a micro-batch uses and deletes old ones.
`statistics.py` describes events, for planning. `version_index.py` follows the subscriptions of a broker.
"""
