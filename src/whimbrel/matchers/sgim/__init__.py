"""SGIM, statistical group index matching: groups of predicates and their compiled form."""
