"""Events to ranks: tables column by column, single events attribute by attribute."""
