"""The same query in plain Spark SQL, one form per file: rivals of `whimbrel.pipeline.match`.

They are rivals and oracle at once: each must find as many pairs as Whimbrel does.
"""
