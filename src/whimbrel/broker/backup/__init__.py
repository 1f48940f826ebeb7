"""Backups of a broker's data, taken while it runs, and their restoration."""
