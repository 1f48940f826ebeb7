"""Code that several access keys use: the plan, the arrays of kernels, packed rows and items, records."""
