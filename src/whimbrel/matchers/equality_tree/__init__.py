"""The equality tree of Gryphon: levels of attributes, built in batches and searched in compiled loops."""

from whimbrel.matchers.equality_tree.equality_tree import EqualityTree

__all__ = ["EqualityTree"]
