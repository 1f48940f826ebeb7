"""`whimbrel overlay`: brokers that work together, simulated; the route of an event, simulated or real."""
