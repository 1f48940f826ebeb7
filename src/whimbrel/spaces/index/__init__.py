"""The index of one role: the regions of all publications, or of all subscriptions, and the searches in them.

region_arrays    the arrays: rows of regions, and two ordered lists of their ends per dimension
dimension_index  the class that owns them: write, read, search
capacity         empty and enlarged arrays
region_rows      kernels that write, read and compare rows
ordered_lists    kernels that change and merge ordered lists
bounds           binary searches in ordered lists
maintenance      when lists are brought up to date and merged
query            a batch of queries: regions before and after a change
region_search    the choice of a strategy for each query
crossing_scan, overlap_scan, elimination, tail_scan     the strategies
"""
