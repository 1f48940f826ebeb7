"""Files of events and subscriptions: JSON lines, CSV, Parquet; each problem with its place."""
