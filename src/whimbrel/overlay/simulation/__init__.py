"""The simulator of an overlay. It is deterministic: the same seed gives the same run.

network         routers and links in simulated time, with faults
run_history     records what happened, and judges which deliveries are missing or wrong
paper_workload  the filters and events of the paper
scenario        plans what happens when
simulate        runs a scenario with each kind of router, counts, and draws what happened
"""
