"""Figure 11: the time to add a publication, against publications and subscriptions that are there."""

from __future__ import annotations

from whimbrel.engine.index import Index
from whimbrel.lab.experiments.spaces.population import filled, insertion, memory, new_points
from whimbrel.lab.harness.claims import growth, slope
from whimbrel.lab.harness.contenders import ENGINE
from whimbrel.lab.harness.experiment import Experiment, Point, Timed, TimedWorks, grid
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel
from whimbrel.spaces import SubjectSpaces

COUNTS = [10, 100, 1_000, 10_000, 100_000]
LARGEST = 100_000


def measure(point: Point) -> TimedWorks:
    """Publications of 20 constraints; the engine finds the same subscriptions, and keeps nothing."""
    spaces = filled(int(point["publications"]), int(point["subscriptions"]), 20)
    new = new_points(20, 20)
    yield insertion(spaces, new)
    index = _index_of(spaces, int(point["subscriptions"]))
    told = [len(spaces.publish(-1 - number, [at])) for number, at in enumerate(new[:3])]
    assert told == [len(index.match_rows(dict(at))) for at in new[:3]]
    for number in range(3):
        spaces.delete_publication(-1 - number)
    yield Timed(ENGINE, lambda: [index.match_rows(dict(at)) for at in new], len(new), unit="us per operation")
    yield Row("all", "matches", sum(told) / 3, "per operation")


def _index_of(spaces: SubjectSpaces, count: int) -> Index:
    """The subscriptions as filters: a dimension that the publication does not constrain is no mismatch."""
    index = Index()
    texts = []
    for key in range(count):
        (content,) = spaces.subscription(key)
        parts = [f"({d} IS NULL OR {d} BETWEEN {one.low} AND {one.high})" for d, one in content.items()]
        texts.append((key, " AND ".join(parts)))
    index.add_many(texts)
    return index


EXPERIMENT = Experiment(
    name="spaces-11",
    paper="Spaces",
    figure="figure 11",
    question="How long does it take to add a publication, and what do publications and subscriptions do to it?",
    why="A third of the subscriptions match each publication, so the time is that of listing them.",
    scales={
        "tiny": grid(publications=[10], subscriptions=[10, 200]),
        "small": grid(publications=[10, 10_000], subscriptions=[10, 1_000, 10_000]),
        "paper": grid(publications=[10, 1_000, 100_000], subscriptions=COUNTS),
        "full": grid(publications=COUNTS, subscriptions=COUNTS),
    },
    timed=measure,
    memory=memory("publications", "subscriptions"),
    panels=(
        Panel("time", "subscriptions", "subscriptions", "CPU us per publication", split="publications"),
        Panel("matches", "subscriptions", "subscriptions", "matches per publication"),
    ),
    claims=(
        growth(
            "From 10 to 100,000 subscriptions the time grows 4.5 times", "time", "subject spaces", "subscriptions", 4.5,
            where=lambda row: row["publications"] == LARGEST,
        ),
        slope(
            "Ours: publications that are there cost a new one nothing", "time", "subject spaces", "publications", 0.0,
            where=lambda row: row["subscriptions"] == 1_000,
        ),
    ),
    notes=(
        "The paper: 172 ms with 10 subscriptions and 776 ms with 100,000, both among 100,000 publications.",
        "Its widths are unknown (AMB-20a): here points in 0..99, and subscriptions of two constraints of width 10.",
    ),
)  # fmt: skip
