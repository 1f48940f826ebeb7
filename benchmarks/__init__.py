"""Benchmarks of matching: the frozen workloads with their targets, and the rivals, one per file.

`whimbrel bench match` runs them; docs/benchmarks.md says how and what for. A rival is a module with a function
`rivals(case)` and a line here; its file opens with a note on bias.
"""

RIVALS = {"naive": "compiled_naive", "duckdb": "duckdb_join", "polars": "polars_join", "papers": "papers"}
"""The module of each group of rivals, by the name that `--rivals` knows it by."""
