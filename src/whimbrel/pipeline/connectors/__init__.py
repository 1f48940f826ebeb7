"""Sources and sinks beside those that Spark has itself.

`log_source.py` reads Whimbrel's log, from a directory or from a broker (`log_place.py`, `broker_link.py`); `files.py`
and `subscription_files.py` read files of all formats. `sinks.py` has the role `Sink`, which `deliver` writes to, and
sinks for folders and functions; `staged_outputs.py` places the outputs of a batch at once. A connector to Kafka or to
tables is one more module here: a `Sink`, or a Spark `DataSource`.
"""
