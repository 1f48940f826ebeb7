"""Patterns as fragments of text that the strings of an event have: tries, and the tries that search them."""
