"""Figure 15: the size of prefixes against the number of queries of a search log."""

from __future__ import annotations

from whimbrel.lab.experiments.prefix.figure_14_search_log import SETS
from whimbrel.lab.experiments.prefix.grown_trees import EVENTS, grown
from whimbrel.lab.experiments.prefix.phrases import LABEL, filters, pages, queries
from whimbrel.lab.harness.claims import ratio
from whimbrel.lab.harness.experiment import CountedRows, Experiment, Point, grid, per_subscription
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Line, Panel


def count(point: Point) -> CountedRows:
    """The mean prefix of 100 pages, for both sets."""
    for name, users in SETS.items():
        texts = queries(int(point["n"]), users)
        tree = grown(filters(texts))
        sizes = [len(found) for found in tree.prefixes(pages(texts, EVENTS))]
        yield Row(name, "prefix", sum(sizes) / len(sizes), "nodes")
        yield Row(name, "share", 1000 * sum(sizes) / len(sizes) / int(point["n"]), "per mille of the queries")
    yield Row("paper", "share", 1.0, "per mille of the queries")


EXPERIMENT = Experiment(
    name="prefix-15",
    paper="Prefix",
    figure="figure 15",
    question="Which part of all queries does the prefix of a page name?",
    why="A page contains the texts of few queries, whatever their number.",
    scales={
        "tiny": grid(n=[100]),
        "small": grid(n=[300, 1_000, 2_000]),
        "paper": grid(n=[500, 1_000, 2_000, 5_000]),
        "full": grid(n=[5_000, 20_000, 43_238]),
    },
    counted=count,
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
