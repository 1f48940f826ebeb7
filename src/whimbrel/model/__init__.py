"""What things are, pure and without I/O: values, intervals, constraints, filters, events, subscriptions."""
