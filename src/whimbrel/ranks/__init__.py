"""Turns values into ranks: sorts the constants of filters, and finds where the values of events lie among them."""
