"""Neon: a table of predicates that are all evaluated, as arrays and as a table that changes."""
