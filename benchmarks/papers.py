"""The papers' matchers: every member of Whimbrel's own family, by the same role.

Bias. They are ours, written to be as fast as their algorithm allows in Numba, and no author has tuned them. Members
that load in bulk answer tables by their own fast lane, block by block; the others take events one by one, and reading
a row of a table as an event is part of their time. They are given as many subscriptions as they load in reasonable
time, in a race of that size, with the engine beside them. `naive` is the reference evaluator: it is here to check the
answers of everybody else, not to race.
"""

from whimbrel.lab.measure.matching.cases import MatchCase
from whimbrel.lab.measure.matching.paper_rival import PaperMatcher
from whimbrel.lab.measure.matching.rival import Rival
from whimbrel.matchers import MATCHERS

ONE_BY_ONE = 10_000
"""Subscriptions for members that are filled one by one."""
FEWER = {"naive": 1_000, "gough": 100}
"""Subscriptions for the reference evaluator, and for a structure that grows exponentially."""
VARIANTS: dict[str, tuple[str, dict[str, object]]] = {
    "equality_tree (no options)": ("equality_tree", {"collapse": False, "successors": False, "aggressive": False}),
    "sgim (dynamic)": ("sgim", {"grouping": "dynamic"}),
}
"""Members with other options than their usual ones."""


def rivals(case: MatchCase) -> list[Rival]:
    """Every member and variant at the size that suits it."""
    if not case.papers:
        return []
    members = {name: (name, dict[str, object]()) for name in MATCHERS} | VARIANTS
    out: list[Rival] = []
    for title, (name, options) in members.items():
        one = PaperMatcher(title, name, options)
        one.most = min(case.papers, FEWER.get(name, case.papers if one.in_bulk else ONE_BY_ONE))
        out.append(one)
    return out
