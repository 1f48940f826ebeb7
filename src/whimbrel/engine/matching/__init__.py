"""Matches events against a snapshot, one at a time or in blocks; finds near misses; makes tables of results."""
