"""What people use today instead, on the frozen workloads: a rule library in a loop, and a search engine's percolator.

    pip install rule-engine
    python -m benchmarks.alternatives --workload mixed --subscriptions 100000

Bias. Each alternative gets one event at a time, as it is made for; Whimbrel is measured the same way (`match` of a
dict) and in a batch. Rules are read and queries registered before the clock starts, and events are prepared for the
percolator. The rule library is `rule-engine`; it evaluates every rule, so it gets a sample of the rules and its time is
scaled by their number. The percolator is Lucene's Monitor with its term presearcher, the library behind the percolators
of search engines, inside one Java process: no cluster, no HTTP. It needs Java and Maven. All times are CPU time of one
thread, and the numbers of matches are compared.
"""
