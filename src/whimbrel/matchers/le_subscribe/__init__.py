"""The three algorithms of Le Subscribe: fair predicate, equality-preferred, and nonequality quarantining.

`equality_clusters` and `predicate_clusters` are what they look up and count, `recent_conjunctions` the same for the
conjunctions that came since the arrays were compiled.
"""
