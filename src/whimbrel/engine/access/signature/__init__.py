"""Signature keys: conjunctions over attributes of few values as 128 bits, tested with one AND."""
