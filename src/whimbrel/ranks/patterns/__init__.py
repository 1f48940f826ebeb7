"""Patterns as pieces of text that the strings of an event have: books, and the tries that search them."""
