"""The general matching tree of Gryphon: a dynamic tree of tests and its compiled form."""
