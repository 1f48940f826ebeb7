"""Filters as SIENA has them: its operators, which filter covers which, and the poset that matches events.

siena          SIENA's constraints as filters
cover_table    which of many filters cover which
poset          filters ordered by covering, with who wants them
"""
