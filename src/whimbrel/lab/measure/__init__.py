"""How things are timed: clocks, the machine card, tables and targets; one module or package for each thing measured.

`matching/` and `pipeline/` measure the engine and the pipeline on Spark, alone or beside rivals that the caller gives.
`filter_parsing`, `cliffs`, `live_changes`, `spaces_bench`, `broker_bench` (with the other modules `broker_*`) and
`overlay_bench` (with `overlay_chain`) measure the rest. `timing`, `machine`, `benchmark_results` and
`workload_cache` are what they share. `whimbrel bench` runs them with what is installed; `python -m benchmarks` in a
checkout adds the rivals that are not part of the library.
"""
