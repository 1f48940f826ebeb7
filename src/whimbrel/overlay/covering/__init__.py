"""Which filters cover which, and SIENA's poset, which matches events by that.

cover_table     the filters that a router knows, and a search for one that covers another, by the index of the model
cover_relation  all pairs of filters of which one covers the other
poset           filters ordered by covering, with who wants them
"""
