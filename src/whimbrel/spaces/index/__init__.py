"""The dimension index: regions of one role, their ordered lists, and the searches in them."""
