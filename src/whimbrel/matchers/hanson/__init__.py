"""Hanson's algorithm: an interval binary search tree per attribute, selectivity estimates and the compiled form."""

from whimbrel.matchers.hanson.hanson import Hanson

__all__ = ["Hanson"]
