"""Clauses: the conjunctions of filters as flat arrays of rank intervals. Engine and matchers are built from them."""
