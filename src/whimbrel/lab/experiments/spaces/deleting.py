"""Deleting a publication costs as much as adding it."""

from __future__ import annotations

from whimbrel.lab.experiments.spaces.population import NEW, filled, insertion, memory, new_points
from whimbrel.lab.harness.claims import ratio
from whimbrel.lab.harness.experiment import Experiment, Point, Timed, TimedWorks, grid
from whimbrel.lab.harness.panels import Panel

COUNT = 20


def measure(point: Point) -> TimedWorks:
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


EXPERIMENT = Experiment(
    name="spaces-delete",
    paper="Spaces",
    figure="section 6, delete",
    question="Does it cost as much to delete a publication as to add it?",
    why="Both find everybody who matches: one to tell of the publication, the other to tell that it is gone.",
    scales={
        "tiny": grid(subscriptions=[10, 500]),
        "small": grid(subscriptions=[100, 1_000, 10_000]),
        "paper": grid(subscriptions=[100, 1_000, 10_000, 100_000]),
        "full": grid(subscriptions=[1_000, 10_000, 100_000, 1_000_000]),
    },
    timed=measure,
    memory=memory("subscriptions"),
    panels=(Panel("time", "subscriptions", "subscriptions", "CPU us per operation"),),
    claims=(ratio("Deleting takes as long as adding", "time", "delete", "insert", 1.0),),
)
