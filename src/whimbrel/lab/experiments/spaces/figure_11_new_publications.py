"""New publications: figure 11, deleting them again, and publications that nothing matches."""

from __future__ import annotations

import numpy as np

from whimbrel.engine.index import Index
from whimbrel.lab.experiments.spaces.operations import NEW, insertion, memory, new_points
from whimbrel.lab.harness.claims import growth, ratio, slope
from whimbrel.lab.harness.contenders import ENGINE
from whimbrel.lab.harness.experiment import Experiment, Point, Timed, TimedWorks, grid
from whimbrel.lab.harness.measures import Row
from whimbrel.lab.harness.panels import Panel
from whimbrel.lab.workloads.regions import AT_ONCE, filled
from whimbrel.spaces import Columns, SubjectSpaces

COUNTS = [10, 100, 1_000, 10_000, 100_000]
LARGEST = 100_000
COUNT = 20
"""Publications of one run."""


def measure_adding(point: Point) -> TimedWorks:
    """Publications of 20 constraints; the engine finds the same subscriptions, and keeps nothing."""
    spaces = filled(int(point["publications"]), int(point["subscriptions"]), 20)
    new = new_points(COUNT, 20)
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


ADDING = Experiment(
    name="spaces-11",
    figure="figure 11",
    question="How long does it take to add a publication, and what do publications and subscriptions do to it?",
    why="A third of the subscriptions match each publication, so the time is that of listing them.",
    scales={
        "tiny": grid(publications=[10], subscriptions=[10, 200]),
        "small": grid(publications=[10, 10_000], subscriptions=[10, 1_000, 10_000]),
        "paper": grid(publications=[10, 1_000, 100_000], subscriptions=COUNTS),
        "full": grid(publications=COUNTS, subscriptions=COUNTS),
    },
    timed=measure_adding,
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


def measure_deleting(point: Point) -> TimedWorks:
    """Add and delete the same publications."""
    spaces = filled(1_000, int(point["subscriptions"]), 20)
    new = new_points(COUNT, 20)
    yield insertion(spaces, new, "insert")
    mine = new_points(COUNT, 20, seed=24)
    first = NEW + COUNT

    def add() -> None:
        for number, at in enumerate(mine):
            spaces.publish(first + number, [at])

    def delete() -> None:
        for number in range(COUNT):
            spaces.delete_publication(first + number)

    add()
    yield Timed("delete", delete, COUNT, add, unit="us per operation")


DELETING = Experiment(
    name="spaces-delete",
    figure="section 6, delete",
    question="Does it cost as much to delete a publication as to add it?",
    why="Both find everybody who matches: one to tell of the publication, the other to tell that it is gone.",
    scales={
        "tiny": grid(subscriptions=[10, 500]),
        "small": grid(subscriptions=[100, 1_000, 10_000]),
        "paper": grid(subscriptions=[100, 1_000, 10_000, 100_000]),
        "full": grid(subscriptions=[1_000, 10_000, 100_000, 1_000_000]),
    },
    timed=measure_deleting,
    memory=memory("subscriptions"),
    panels=(Panel("time", "subscriptions", "subscriptions", "CPU us per operation"),),
    claims=(ratio("Deleting takes as long as adding", "time", "delete", "insert", 1.0),),
)


def measure_without_matches(point: Point) -> TimedWorks:
    """Publications far from every subscription, and publications among them with ten matches each."""
    count = int(point["subscriptions"])
    rng = np.random.default_rng(23)
    side = float(np.sqrt(10 / count))
    spaces = SubjectSpaces()
    spaces.define("map", {"x": "number", "y": "number"})
    for at in range(0, count, AT_ONCE):
        corner = rng.random((2, min(AT_ONCE, count - at)))
        bounds = {name: (corner[axis], corner[axis] + side) for axis, name in enumerate("xy")}
        spaces.subscribe_many(Columns(range(at, at + corner.shape[1]), bounds), quiet=True)
    yield insertion(spaces, [{"x": 5.0 + number, "y": 0.5} for number in range(COUNT)], "no match")
    some = [{"x": float(x), "y": float(y)} for x, y in rng.random((COUNT, 2))]
    yield insertion(spaces, some, "ten matches")


WITHOUT_MATCHES = Experiment(
    name="spaces-none",
    figure="section 6, no match",
    question="Does a publication that nothing matches cost the same among millions of subscriptions?",
    why="A search starts at the dimension with the fewest overlapping bounds: where there are none, it ends at once.",
    scales={
        "tiny": grid(subscriptions=[100, 1_000]),
        "small": grid(subscriptions=[1_000, 10_000, 100_000]),
        "paper": grid(subscriptions=[1_000, 10_000, 100_000, 1_000_000]),
        "full": grid(subscriptions=[10_000, 100_000, 1_000_000, 4_000_000]),
    },
    timed=measure_without_matches,
    memory=lambda point: 3e8 + 1.5e3 * float(point["subscriptions"]),
    panels=(Panel("time", "subscriptions", "subscriptions", "CPU us per publication"),),
    claims=(
        slope("Without a match the time does not depend on subscriptions", "time", "no match", "subscriptions", 0.0),
    ),
    notes=("Squares in two dimensions, whose sides hold ten points each at any number.",),
)
