"""The default matcher behind `whimbrel.Index`."""
