"""The stages that match events: `match` at rest, `match_stream` as a stream, both in `match.py`.

`match_options.py` checks a call, `match.py` makes tasks of it (all shards in each task, or groups of them), and
`task.py` is what runs on a worker.
"""
