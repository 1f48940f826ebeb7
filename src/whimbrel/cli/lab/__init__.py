"""`whimbrel lab`: the matchers of the papers, and the experiments."""
