"""Which filters cover which, and SIENA's poset, which matches events by that.

cover_table    which of many filters cover which
poset          filters ordered by covering, with who wants them
"""
