"""`whimbrel overlay`: brokers that work together, simulated."""
