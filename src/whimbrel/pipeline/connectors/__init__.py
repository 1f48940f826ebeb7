"""Where data comes from and goes to: sources and sinks beside those that Spark has."""
