"""`whimbrel demo`: the bundled web shop matched in this process, then a stream of quotes on Spark."""
