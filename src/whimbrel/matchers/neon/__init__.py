"""Neon: a table of predicates that are all evaluated, and its form as SQL tables."""

from whimbrel.matchers.neon.neon import Neon

__all__ = ["Neon"]
