"""Hanson's algorithm: an interval binary search tree per attribute, selectivity estimates and the compiled form."""
