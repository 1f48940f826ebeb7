"""SGIM, statistical group index matching: groups of predicates and their compiled form."""

from whimbrel.matchers.sgim.sgim import Sgim

__all__ = ["Sgim"]
