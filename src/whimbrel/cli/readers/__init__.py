"""Files to subscriptions and events: JSON lines, CSV and Parquet, read in batches, every refusal with its place.

Readers do no more than read: they yield what was good and, in its place, what was refused.
"""
