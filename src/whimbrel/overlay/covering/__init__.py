"""Which filters cover which, and SIENA's poset, which matches events by that.

cover_table     the filters that a router knows, and a search for one that covers another
cover_relation  all pairs of filters of which one covers the other
covers          whether one filter covers another
poset           filters ordered by covering, with who wants them
"""
