"""Values to ranks: the constants of filters in order, and where the values of events lie among them."""
