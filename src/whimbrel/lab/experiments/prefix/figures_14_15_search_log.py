"""Figures 14 and 15: the routing tree of a search log, and the prefixes of pages.

The log of the paper is not public any more, so this is a seeded model of one. Words follow Zipf's law. A user asks for
phrases of one to four words, and often for a phrase again with one more word, so that phrases contain each other. A
page contains the text of a query with a probability that falls with its words.
"""

from __future__ import annotations

import numpy as np

from whimbrel.lab.experiments.prefix.grown_trees import EVENTS, grown
from whimbrel.lab.harness.claims import limit, order, ratio
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Line, Panel
from whimbrel.lab.workloads.draws import Draws, zipf
from whimbrel.model.event import Event
from whimbrel.model.filter import Filter

WORDS = 20_000
EXPONENT = 1.0
AGAIN = 0.4
"""The share of queries that extend an earlier one of the same user."""
QUOTED = 3
"""Queries whose text a page contains, in the mean."""
DRAWN = 3_000
"""Nodes that are drawn at most."""
SETS = {"few users": 28, "many users": 1_000}
"""Set A has 28 users with thousands of queries each, set B thousands of users with ten."""
LABEL = "The search log of the paper is not public any more: phrases are drawn from a seeded model."


def queries(count: int, users: int) -> list[str]:
    """`count` different queries of `users` users."""
    draws = Draws(0, 3)
    words = zipf(WORDS, EXPONENT)
    mine: list[list[str]] = [[] for _ in range(users)]
    found: dict[str, None] = {}
    while len(found) < count:
        own = mine[int(draws.integers(0, users - 1, 1)[0])]
        if own and draws.chance(AGAIN, 1)[0]:
            base = own[int(draws.integers(0, len(own) - 1, 1)[0])]
            text = f"{base} {_word(int(draws.weighted(words, 1)[0]))}"
        else:
            text = " ".join(map(_word, draws.weighted(words, int(draws.integers(1, 3, 1)[0])).tolist()))
        own.append(text)
        if len(text.split()) <= 5:
            found[text] = None
    return list(found)


def _word(number: int) -> str:
    """A word that no other word contains."""
    return f"w{number:05}"


def filters(texts: list[str]) -> list[Filter]:
    """One filter for each query: the page contains its text."""
    return [Filter.parse(f"query LIKE '%{text}%'") for text in texts]


def pages(texts: list[str], count: int) -> list[Event]:
    """Pages that contain some of the texts, short ones more often."""
    draws = Draws(0, 4)
    weights = np.cumsum([4.0 ** -len(text.split()) for text in texts])
    out = []
    for _ in range(count):
        chosen = draws.weighted(weights / weights[-1], int(draws.integers(1, 2 * QUOTED - 1, 1)[0]))
        out.append(Event({"query": " . ".join(texts[place] for place in chosen.tolist())}))
    return out


def count_nodes(point: Point) -> CountedRows:
    """The place and level of each node, those of the largest prefix, and how many queries share a branch."""
    n = int(point["n"])
    for name, users in SETS.items():
        texts = queries(n, users)
        tree = grown(filters(texts))
        matched = [tree.snapshot.match(event).prefix.nodes for event in pages(texts, EVENTS)]
        drawn = {"tree": range(1, len(tree) + 1, max(1, len(tree) // DRAWN)), "prefix": max(matched, key=len).tolist()}
        for what, nodes in drawn.items():
            for node in nodes:
                level = int(tree.depths[node])
                yield Row(f"level {level}", f"{what}, {name}", level, at={"place": node})
        yield Row(name, "contention", n / tree.levels()[1], "queries per child of the root")
        yield Row(name, "largest prefix", 1000 * max(map(len, matched)) / n, "per mille of the queries")


TREE = Experiment(
    name="prefix-14",
    figure="figure 14",
    question="What do the tree of a search log and the prefix of a page look like?",
    why="A query that contains another stands below it; most are on the second and third level, and a page names few.",
    scales={
        "tiny": grid(n=[100]),
        "small": grid(n=[1_000]),
        "paper": grid(n=[40_000]),
        "full": grid(n=[80_000]),
    },
    counted=count_nodes,
    memory=per_subscription(50_000),
    panels=(
        Panel("tree, few users", "place", "node of the tree, in preorder (set A)", "level", log_x=False, log_y=False,
              kind="points"),
        Panel("prefix, few users", "place", "node of the largest prefix (set A)", "level", log_x=False, log_y=False,
              kind="points"),
        Panel("tree, many users", "place", "node of the tree, in preorder (set B)", "level", log_x=False, log_y=False,
              kind="points"),
    ),
    claims=(
        limit("A prefix is a few per mille of the queries", "largest prefix", "few users", 10.0,
              where=lambda row: row["n"] >= 40_000),
        order("On the model of a log: queries of few users contend for branches more than those of many", "contention",
              "many users", "few users"),
    ),
    notes=(LABEL, "The measure `contention` is how many queries share a child of the root, for both sets."),
)  # fmt: skip


def count_prefixes(point: Point) -> CountedRows:
    """The mean prefix of 100 pages, for both sets."""
    for name, users in SETS.items():
        texts = queries(int(point["n"]), users)
        tree = grown(filters(texts))
        sizes = [len(found) for found in tree.prefixes(pages(texts, EVENTS))]
        yield Row(name, "prefix", sum(sizes) / len(sizes), "nodes")
        yield Row(name, "share", 1000 * sum(sizes) / len(sizes) / int(point["n"]), "per mille of the queries")
    yield Row("paper", "share", 1.0, "per mille of the queries")


PREFIXES = Experiment(
    name="prefix-15",
    figure="figure 15",
    question="Which part of all queries does the prefix of a page name?",
    why="A page contains the texts of few queries, whatever their number.",
    scales={
        "tiny": grid(n=[100]),
        "small": grid(n=[300, 1_000, 2_000]),
        "paper": grid(n=[500, 1_000, 2_000, 5_000]),
        "full": grid(n=[5_000, 20_000, 43_238]),
    },
    counted=count_prefixes,
    memory=per_subscription(50_000),
    panels=(
        Panel("prefix", "n", "queries", "nodes of a prefix, mean of 100 pages"),
        Panel("share", "n", "queries", "prefix, per mille of the queries", lines=(Line("1 per mille", y=1.0),)),
    ),
    claims=tuple(
        ratio(
            f"A prefix is about one per mille of the queries ({name})",
            "share",
            name,
            "paper",
            1.0,
            where=lambda row: row["n"] >= 40_000,
        )
        for name in SETS
    ),
    notes=(LABEL, "The shares follow from how many texts a page contains, three in the mean, which is ours."),
)
