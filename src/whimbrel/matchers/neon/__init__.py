"""Neon: a relational table of predicates that are all evaluated, on arrays and as a table that changes."""
