"""The general matching tree of Gryphon: a dynamic tree of tests and its compiled form."""

from whimbrel.matchers.gryphon_tree.gryphon_tree import GryphonTree

__all__ = ["GryphonTree"]
