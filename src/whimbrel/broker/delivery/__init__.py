"""How messages reach subscribers: read from the lists and the log, or pushed to streams as they come."""
