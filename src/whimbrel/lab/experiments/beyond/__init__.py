"""Questions that the papers leave open: size, skew, correlation, change, and real data."""
