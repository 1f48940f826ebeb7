"""Neon: a relational table of predicates that are all evaluated, on arrays, as a table that changes, and as SQL."""
