"""Values to ranks: the constants of attributes, and the encoding of events by them. Engine and matchers share it."""
