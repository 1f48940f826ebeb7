"""The simulator of an overlay, deterministic: the same seed gives the same run.

network     routers and links in simulated time, with faults
history     what happened, and what had to
workload    the filters and events of the paper
scenario    what happens when
picture     routers and links, drawn
simulate    runs of each kind of router, and their figures
"""
