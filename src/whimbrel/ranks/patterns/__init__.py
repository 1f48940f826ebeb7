"""Patterns as fragments of text, and the tries that find fragments in the strings of events."""
