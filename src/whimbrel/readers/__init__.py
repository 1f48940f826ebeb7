"""Files of events and subscriptions: JSON lines, CSV and Parquet, with the place of everything that is refused."""
