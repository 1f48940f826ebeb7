"""Taxis that move over a town, and zones that are told who enters and who leaves: what `whimbrel spaces` shows.

A taxi is a small box, a zone a rectangle. The position of a taxi is a publication that stays; a zone is notified only
when a taxi begins or ceases to overlap it.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from whimbrel.spaces import Columns, Notifications, SubjectSpaces

SIDE = 100.0
"""The length of the town's sides."""
SHOWN = 12
"""The number of notifications that `latest` keeps."""
_VERBS = {"enter": "enters", "leave": "leaves"}


@dataclass
class TaxiTown:
    """The positions and headings of all taxis, and the counts of what has happened."""

    spaces: SubjectSpaces
    at: np.ndarray
    heading: np.ndarray
    rng: np.random.Generator
    steps: int = 0
    moved: int = 0
    seconds: float = 0.0
    told: dict[str, int] = field(default_factory=lambda: {"enter": 0, "leave": 0})
    latest: deque[str] = field(default_factory=lambda: deque(maxlen=SHOWN))

    @classmethod
    def build(cls, spaces: SubjectSpaces, taxis: int, zones: int, rng: np.random.Generator) -> TaxiTown:
        """Define the town, subscribe the zones, and publish all taxis at random places."""
        spaces.define("town", {"x": "number", "y": "number"})
        low = rng.uniform(0, 0.95 * SIDE, (2, zones))
        size = rng.uniform(0.01 * SIDE, 0.05 * SIDE, (2, zones))
        bounds = {name: (low[axis], low[axis] + size[axis]) for axis, name in enumerate("xy")}
        spaces.subscribe_many(Columns([f"zone {n}" for n in range(zones)], bounds), leave=True)
        at = rng.uniform(0, SIDE, (2, taxis))
        spaces.publish_many(Columns(range(taxis), {"x": at[0], "y": at[1]}))
        return cls(spaces, at, rng.uniform(0, 6.28, taxis), rng)

    def step(self) -> Notifications:
        """Move every taxi a little and return the notifications."""
        self.heading += self.rng.normal(0, 0.3, len(self.heading))
        self.at += 0.4 * np.stack([np.cos(self.heading), np.sin(self.heading)])
        self.at %= SIDE
        began = time.perf_counter()
        x, y = self.at
        found = self.spaces.update_many(Columns(range(len(x)), {"x": (x - 0.1, x + 0.1), "y": (y - 0.1, y + 0.1)}))
        self.seconds += time.perf_counter() - began
        self.steps += 1
        self.moved += len(x)
        kinds = np.bincount(found.kinds, minlength=2)
        self.told["enter"] += int(kinds[0])
        self.told["leave"] += int(kinds[1])
        for one in found[-SHOWN:]:
            self.latest.append(f"taxi {one.publication} {_VERBS[one.kind]} {one.subscription}")
        return found

    def summary(self) -> dict[str, object]:
        """The counts so far, and the rate of moves."""
        rate = round(self.moved / self.seconds) if self.seconds else 0
        return {"steps": self.steps, "moves": self.moved, **self.told, "moves_per_second": rate}
