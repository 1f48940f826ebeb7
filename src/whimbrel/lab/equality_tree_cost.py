"""The theoretical cost of an equality tree: the nodes that an event visits, expected exactly and bounded from above.

Aguilera et al., PODC'99, section 4 and appendix B (docs/papers.md, sections 3 and 4). There are K attributes of V
values each, events are uniform over the V**K combinations, S is a set of subscriptions, and Kbar = K + 1. Then

    expected_cost <= greedy_bound <= theorem_1,

and no event, uniform or not, visits more than `worst_case` nodes.
The bound is sublinear in |S|: it grows with |S|**(1 - decay_exponent(V, K)). Table 2 of the subject-space paper
quotes it with ln K where ln(K + 1) is needed (ERR-4a).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import comb, exp, log

STAR = None
"""In a subscription: an attribute that it does not test."""


def decay_exponent(values: int, attributes: int) -> float:
    """lambda = ln V / (ln V + ln Kbar): the share of the subscriptions' exponent that the tree saves.

    >>> round(decay_exponent(3, 30), 4), round(decay_exponent(30, 30), 4)
    (0.2424, 0.4976)
    """
    _check(values, attributes)
    return log(values) / (log(values) + log(attributes + 1))


def theorem_1(values: int, attributes: int, subscriptions: int) -> float:
    """The paper's Theorem 1.

    >>> round(theorem_1(3, 30, 1_000)), round(theorem_1(30, 30, 25_000))
    (7752, 10005)
    """
    _check(values, attributes, subscriptions)
    levels = attributes + 1
    grown = levels * exp(log(subscriptions) * (1 - decay_exponent(values, attributes))) - 1
    return values * levels * grown * (log(values) + log(levels)) / ((values * levels - 1) * log(levels))


def greedy_bound(values: int, attributes: int, subscriptions: int) -> float:
    """The cost of the worst tree with Kbar |S| nodes: as many nodes as can be below 0, 1, 2... tests.

    Sharper than Theorem 1, which bounds this sum by an integral. O(K).

    >>> round(greedy_bound(3, 30, 1_000))
    3782
    """
    _check(values, attributes, subscriptions)
    left = (attributes + 1) * subscriptions
    cost = 0.0
    for tests in range(attributes + 1):
        nodes = min(left, values**tests * comb(attributes + 1, tests + 1))
        cost += nodes / values**tests
        left -= nodes
    return cost


def worst_case(attributes: int, subscriptions: int) -> int:
    """The most nodes that any event visits: two edges leave each node, so 2**Kbar - 1, or all Kbar |S| if fewer.

    The second is linear: subscriptions that test nothing in common have no node in common but the root.

    >>> worst_case(2, 4), worst_case(30, 1_000)
    (7, 31000)
    """
    _check(2, attributes, subscriptions)
    return min((1 << attributes + 1) - 1, (attributes + 1) * subscriptions)


def expected_cost(subscriptions: Iterable[Sequence[object]], values: int) -> float:
    """C(S): the exact mean number of nodes that a uniform event visits in the plain tree of the subscriptions.

    A subscription is a sequence of K constants in the order of the levels, `STAR` where it does not test. A node is
    visited by V**-nu of the events, nu being the tests above it. O(K |S|).

    >>> expected_cost([(1, STAR), (STAR, 0)], values=2)  # the root, <1>, <*>, <1 *>, <* 0>
    3.5
    """
    rows = [tuple(constants) for constants in subscriptions]
    lengths = sorted({len(row) for row in rows})
    if len(lengths) > 1:
        raise ValueError(f"Expected subscriptions over the same attributes, but got lengths {lengths}")
    _check(values, *lengths)
    cost = 1.0 if rows else 0.0  # the root
    numbers: dict[tuple[int, object], int] = {}  # a node by the number of its parent and the label between them
    for row in rows:
        node, weight = -1, 1.0
        for constant in row:
            if constant is not STAR:
                weight /= values
            child = numbers.get((node, constant))
            if child is None:
                child = numbers[node, constant] = len(numbers)
                cost += weight
            node = child
    return cost


def _check(values: int, attributes: int = 1, subscriptions: int = 1) -> None:
    problems = [
        f"{name} of at least {least}, but got {value}"
        for name, value, least in (
            ("values", values, 2), ("attributes", attributes, 1), ("subscriptions", subscriptions, 1)
        )
        if value < least
    ]  # fmt: skip
    if problems:
        raise ValueError(f"Expected {'; '.join(problems)}")
