"""Sources and sinks beside those that Spark has itself.

`log_source.py` reads Whimbrel's log. `sinks.py` has the role `Sink`, which `deliver` writes to, and sinks for folders
and functions. A connector to Kafka or to tables is one more module here: a `Sink`, or a Spark `DataSource`.
"""
