"""Whimbrel beside its rivals, in one run: `python -m benchmarks` from the root of a checkout.

The measuring, the frozen workloads and compiled naive are part of the library (`whimbrel.lab.measure`); here are the
rivals that are not, one per file. Each file opens with a note on bias. `rivals.py` lists them; a new one is a file and
a line there. docs/benchmarks.md says how it is measured, and what came out.
"""
