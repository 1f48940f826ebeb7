"""Events to ranks: dicts one by one, and tables column by column."""
