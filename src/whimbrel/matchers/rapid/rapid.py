"""RAPIDMatch: trees that leave out the properties which a light event cannot have.

After Kale, Hazan, Cao and Singh, DEBS 2005. Compiled loops on flat arrays that change in place: `forests` says which
trees there are, `tree_kernels` changes and searches them.
"""

from __future__ import annotations

from whimbrel.matchers.papers import Paper
from whimbrel.matchers.rapid.property_matcher import FULL_TREE, Choice, PropertyMatcher


class Rapid(PropertyMatcher):
    """Filters over {0, 1, *}: equalities with 0, 1, FALSE or TRUE.

    An event with t <= c ones leaves at least one of t + 1 blocks of properties without a 1. What it can match has no 1
    in that block either, so the block's tree need not test it; of the blocks without a 1 the one with the smallest tree
    is searched. An event with more ones, or one that lacks a property or holds several values or another value of it,
    is answered by the tree over all properties, in which an absent property follows * only.

    Parameters: `c`, the largest number of ones that has trees of its own, at most k - 1; without it, the largest t up
    to 6 whose blocks are at least t long, which is how the garbled efficiency condition is read (AMB-7d). `leaf`, how
    many subscriptions a leaf holds before it is split: a leaf compares bit masks. `count`, whether work is counted.

    The survey calls the trees of one t disjoint (ERR-7a): a subscription must be in every tree whose block it has no 1
    in, or matches are lost; any one of the qualifying trees then gives the whole answer (ERR-7b). An event with a `*`,
    as in the survey's example (ERR-7c), is one that lacks a property here.

    Cost: an add visits at most (c + 1) (c + 2) / 2 + 1 trees, a match one.

    >>> from whimbrel.matchers import make
    >>> rapid = make("rapid")
    >>> rapid.add("sports", "sports = 1 AND politics = 0")
    >>> rapid.add("quiet", "politics = 0")
    >>> rapid.match({"sports": 0, "politics": 0}), rapid.match_vector([0, 1])
    (['quiet'], ['sports', 'quiet'])
    """

    name = "rapid"
    paper = Paper.SURVEY
    section = "III.B and III.C"

    def _choose(self, ones: int, zeros: int) -> Choice:
        light = self._trees.forests[0]
        t = ones.bit_count()
        if t < len(light):
            return "ones", light[t], ones
        return FULL_TREE
