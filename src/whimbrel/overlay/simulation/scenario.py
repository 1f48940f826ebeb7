"""What happens in a simulation, planned beforehand, so that every kind of router gets the same.

The default is the experiment of the paper: subscribers and publishers at the leaves of a tree of 27 routers, a filter
of each subscriber and an event of each publisher every three seconds. Filters come first and events after them, unless
both are wanted `together`, as in the paper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random

from whimbrel.model.event import Event
from whimbrel.overlay.router.prefix_router import PrefixSettings
from whimbrel.overlay.simulation.network import Faults, Network
from whimbrel.overlay.simulation.paper_workload import NAMES, Distribution, PaperWorkload
from whimbrel.overlay.topology import Shape, Topology
from whimbrel.overlay.tree.paths import Interest


@dataclass(frozen=True, slots=True)
class ScenarioOptions:
    """The size of a simulation. Times are in seconds; `churn` is the share of filters that is replaced among events.

    `cuts` links are cut and `crashes` routers are down, each for ten intervals, while events are published.
    """

    routers: int = 27
    subscribers: int = 9
    publishers: int = 9
    filters: int = 1_000
    events: int = 1_000
    interval: float = 3.0
    churn: float = 0.0
    together: bool = False
    shape: Shape = Shape.TREE
    distribution: Distribution = Distribution.PARETO
    names: int = NAMES
    loss: float = 0.0
    cuts: int = 0
    crashes: int = 0
    seed: int = 1
    prefix: PrefixSettings = field(default_factory=PrefixSettings)


@dataclass(frozen=True, slots=True)
class PlannedFilter:
    """A subscription that is made at a time, and perhaps ends at one."""

    at: float
    router: str
    id: str
    interest: Interest
    until: float | None = None


@dataclass(frozen=True, slots=True)
class PlannedEvent:
    """An event that is published at a time."""

    at: float
    router: str
    content: Mapping[str, object]
    event: Event


class Scenario:
    """A topology, subscriptions, events and faults."""

    def __init__(self, options: ScenarioOptions) -> None:
        self.options = options
        random = Random(f"scenario:{options.seed}")
        self.topology = Topology.of_shape(options.shape, options.routers, random)
        self.optimizer = "r0"
        leaves = self.topology.leaves()
        self._subscribers = [leaves[2 * k % len(leaves)] for k in range(options.subscribers)]
        self._publishers = [leaves[(2 * k + 1) % len(leaves)] for k in range(options.publishers)]
        workload = PaperWorkload(options.distribution, options.seed, options.names)
        self.filters = self._plan_filters(workload)
        loaded = options.interval * -(-options.filters // options.subscribers)
        quiet = 10 * options.interval + (options.prefix.optimizer.trigger or 0.0)
        self._begin = 0.0 if options.together else loaded + quiet
        self.events = self._plan_events(workload)
        self._end = max((event.at for event in self.events), default=self._begin)
        self._plan_churn(workload, random)
        self.faults = self._plan_faults(random)

    def schedule(self, network: Network) -> None:
        """Plan all subscriptions, events and faults in a network."""
        for one in self.filters:
            network.at(one.at, partial(network.subscribe, one.router, one.id, one.interest))
            if one.until is not None:
                network.at(one.until, partial(network.unsubscribe, one.router, one.id))
        for event in self.events:
            network.at(event.at, partial(network.publish, event.router, event.content, event.event))

    def _plan_filters(self, workload: PaperWorkload) -> list[PlannedFilter]:
        options, out = self.options, []
        for number in range(options.filters):
            turn, who = divmod(number, options.subscribers)
            at = options.interval * (turn + who / options.subscribers)
            out.append(PlannedFilter(at, self._subscribers[who], f"s{number}", Interest(workload.filter())))
        return out

    def _plan_events(self, workload: PaperWorkload) -> list[PlannedEvent]:
        options, out = self.options, []
        for number in range(options.events):
            turn, who = divmod(number, options.publishers)
            at = self._begin + options.interval * (turn + who / options.publishers)
            content = workload.event()
            out.append(PlannedEvent(at, self._publishers[who], content, Event(content)))
        return out

    def _plan_churn(self, workload: PaperWorkload, random: Random) -> None:
        """Replace filters while events are published."""
        options = self.options
        for number, place in enumerate(random.sample(range(options.filters), int(options.churn * options.filters))):
            old = self.filters[place]
            at = max(old.at, self._begin + random.random() * (self._end - self._begin))
            self.filters[place] = PlannedFilter(old.at, old.router, old.id, old.interest, at)
            self.filters.append(
                PlannedFilter(at, old.router, f"s{options.filters + number}", Interest(workload.filter()))
            )

    def _plan_faults(self, random: Random) -> Faults:
        options = self.options
        span = 10 * options.interval

        def when() -> float:
            return self._begin + random.random() * (self._end - self._begin)

        links, names = self.topology.links(), list(self.topology.neighbours)
        cuts = [(start, start + span, *random.choice(links)) for start in (when() for _ in range(options.cuts))]
        crashes = [(start, start + span, random.choice(names)) for start in (when() for _ in range(options.crashes))]
        return Faults(options.loss, tuple(cuts), tuple(_apart(crashes)))


def _apart(crashes: list[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    """The crashes without any that begins while the same router is down."""
    out: list[tuple[float, float, str]] = []
    for start, end, name in sorted(crashes):
        if not any(name == other and start <= until for _, until, other in out):
            out.append((start, end, name))
    return out
