"""Fair predicate matching, which is counting: equality-preferred matching that prefers nothing."""

from __future__ import annotations

from whimbrel.matchers.le_subscribe.equality_preferred import EqualityPreferred


class FairPredicate(EqualityPreferred):
    """Finds the satisfied predicates, and counts them per conjunction.

    Every different predicate is stored once, in the cluster of its attribute and operator. A satisfied predicate adds 1
    to each conjunction that has it, and the addition that completes a conjunction emits it. A hit count that is not
    above the event's stamp counts as 0, so that nothing is reset. Of the constraints on one attribute an interval with
    two ends is two predicates, any other set is one; each is counted once per event. Cost: lookups + additions +
    comparisons. Corrected: ERR-11a, ERR-11b, AMB-10d.

    >>> from whimbrel.matchers import make
    >>> fair = make("fair_predicate", count=True)
    >>> fair.add("mid", "price > 10 AND price < 20")
    >>> fair.add("cheap", "price < 20 AND color = 'red'")
    >>> fair.match({"price": [5, 30], "color": "red"})
    ['cheap']
    >>> fair.stats()["additions"]
    2
    """

    name = "fair_predicate"
    section = "Figure 2"
    looks_up_equalities = False
