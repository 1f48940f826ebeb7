"""Values to ranks: dictionaries of constants, and the columns and dicts of events read by them."""
