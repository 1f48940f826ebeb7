"""Spaces and their dimensions: how constraints of users become cuts, the 64-bit integers of the index, and back.

space_definitions   the spaces that are defined; regions, and columns of many regions, are encoded with them
dimension_domains   numbers, integers, timestamps and texts as cuts
schema_domains      domains of a schema: listed values, and numbers within a range
strings             labels of texts, whose order grows with the texts that come
interval            a constraint as users write it
errors              what subject spaces raise
"""
