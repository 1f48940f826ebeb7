"""How things are timed: clocks, the machine card, tables and targets; one module or package for each thing measured.

`matching/` and `pipeline/` measure the engine and the pipeline on Spark, alone or beside rivals that the caller gives.
`filter_parsing`, `cliffs`, `live_changes`, `spaces_bench`, `overlay_bench` and `broker_bench` (with the other modules
`broker_*`) measure the rest. `timing`, `machine`, `benchmark_results` and `workload_cache` are what they share.
`whimbrel bench` runs them with what is installed; `python -m benchmarks` in a checkout adds rivals that are not part
of the library.
"""
