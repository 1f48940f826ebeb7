"""Subscriptions on their way in: texts cut and parsed, on all cores, into clauses of ranks."""
