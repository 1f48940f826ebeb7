"""Jobs that are made of stages: from files or a log to files.

`batch_job.py` and `stream_job.py` match events, `compile_job.py` compiles subscriptions, `backtest.py` says what a
filter would have matched. `event_source.py` reads and checks the events of a job, `checkpoint.py` guards the checkpoint
of a stream, and `monitor.py` is the role that reports progress. A command only parses options, calls a job and prints.
"""
