"""Workloads, measuring, and the papers' matchers side by side. docs/lab.md shows how to use it."""
