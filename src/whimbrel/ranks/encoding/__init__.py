"""Encodes events as ranks: tables column by column, single events attribute by attribute."""
