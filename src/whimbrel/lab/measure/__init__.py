"""The benchmark of matching: the engine beside its rivals, on frozen workloads, in one run, with every answer checked.

The roles and the measuring are here; the frozen list of workloads and the rivals, one per file, are in the folder
`benchmarks` of a checkout (`folder.py` finds it). `run.py` ties them together, `page.py` writes what came out.
"""
