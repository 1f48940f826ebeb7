"""The index of one role: the regions of all publications, or of all subscriptions, and the searches in them.

region_arrays    the arrays: rows of regions, and two ordered lists of their ends per dimension; empty and larger ones
dimension_index  the class that owns them: write, read, search
region_rows      kernels that write, read and compare rows
ordered_lists    lists are brought up to date with the rows, and merged
bounds           binary searches in ordered lists
query            a batch of queries: regions before and after a change
region_search    the choice of a strategy for each query
strategies       crossing scan, overlap scan, elimination
"""
