"""Jobs that are made of stages: from files or a log to files.

`batch_job.py` compiles subscriptions and matches events, `stream_job.py` matches a stream, `backtest.py` says what a
filter would have matched, `broker_job.py` matches for a broker. `event_source.py` reads and checks the events of a job,
`checkpoint.py` guards the checkpoint of a stream, and `monitor.py` is the role that reports progress. A command only
parses options, calls a job and prints.
"""
