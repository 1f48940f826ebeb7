"""Patterns as fragments of text: what patterns look for, and tries that find it in the strings of events."""
