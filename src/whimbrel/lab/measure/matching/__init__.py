"""How fast the engine matches: the frozen workloads, the engine beside its rivals, tables and targets."""
