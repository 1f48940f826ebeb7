"""Networks in which everything happens at random, and what must hold for each of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from whimbrel.model.event import Event
from whimbrel.model.filter import Filter
from whimbrel.overlay.router.baselines import SienaRouter
from whimbrel.overlay.router.optimizer import OptimizerSettings
from whimbrel.overlay.router.prefix_router import PrefixRouter, PrefixSettings
from whimbrel.overlay.router.router import Router
from whimbrel.overlay.simulation.network import Faults, Network
from whimbrel.overlay.simulation.run_history import Truth
from whimbrel.overlay.topology import Topology
from whimbrel.overlay.tree.paths import Interest

VALUES = ["1", "2", "3", "2.5", "'a'", "'ab'", "'b'", "TRUE", "TIMESTAMP '2026-01-31'"]
CONTENT: list[Any] = [1, 2, 3, 2.5, 4, "a", "ab", "abc", "b", "10.1.2.3", True, False, None]
PREDICATES = [
    *(f"{{a}} {op} {{v}}" for op in ("=", "!=", "<", "<=", ">", ">=", "=", "<", ">")),
    *(
        "{a} IN ({v}, {w})",
        "{a} NOT IN ({v})",
        "{a} BETWEEN 1 AND 2",
        "{a} LIKE '%b%'",
        "{a} LIKE 'a_'",
        "{a} LIKE '%b'",
    ),
    *("{a} STARTS WITH 'a'", "{a} ENDS WITH 'b'", "{a} IS NULL", "{a} IS NOT NULL", "{a} IS MISSING", "{a} < {b}"),
    *("{a} CONTAINS {v}", "{a} CONTAINS ALL ({v}, {w})", "{a} CONTAINS NONE ({v})", "{a} RLIKE '^a'", "{a} = {b}"),
    *("{a} CONTAINS ANY ({v}, NULL)", "{a} IN CIDR '10.0.0.0/8'", "NOT ({a} < {v})", "{a} ILIKE 'A%'"),
]


def random_filter(random: Random) -> str:
    """A filter of the whole language."""

    def predicate() -> str:
        a, b = random.sample(["x", "y", "z", "d.e"], 2)
        return random.choice(PREDICATES).format(a=a, b=b, v=random.choice(VALUES), w=random.choice(VALUES))

    terms = [predicate() for _ in range(random.choice([1, 1, 2, 2, 3]))]
    text = " AND ".join(terms) if random.random() < 0.7 else " OR ".join(terms)
    return f"NOT ({text})" if random.random() < 0.1 else text


def random_event(random: Random) -> dict[str, Any]:
    """An event with values of every type, lists, and at times an array of objects."""

    def value() -> Any:
        if random.random() < 0.25:
            return [random.choice(CONTENT) for _ in range(random.randrange(4))]
        return random.choice(CONTENT)

    event = {name: value() for name in ("x", "y", "z") if random.random() < 0.75}
    if random.random() < 0.4:
        objects = [{"e": value()} for _ in range(random.randrange(1, 3))]
        event["d"] = objects if random.random() < 0.5 else objects[0]
    return event


@dataclass
class Plan:
    """What happens: at a time, at a router."""

    routers: int
    parents: list[int]
    joins: dict[int, float] = field(default_factory=dict)
    subscriptions: list[tuple[float, int, str, float | None]] = field(default_factory=list)
    events: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)
    optimizers: list[tuple[float, int]] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    settings: PrefixSettings = field(default_factory=PrefixSettings)
    kind: str = "prefix"
    seed: int = 0


def random_plan(seed: int) -> Plan:
    """A small network that lives for two seconds."""
    random = Random(seed)
    routers = random.randrange(1, 7)
    plan = Plan(routers, [random.randrange(number) for number in range(1, routers)], seed=seed)
    for _ in range(random.randrange(1, 12)):
        start = random.random()
        end = start + random.random() if random.random() < 0.4 else None
        plan.subscriptions.append((start, random.randrange(routers), random_filter(random), end))
    for _ in range(random.randrange(1, 10)):
        plan.events.append((2 * random.random(), random.randrange(routers), random_event(random)))
    plan.optimizers = [
        (random.random() * place, random.randrange(routers)) for place in range(random.choice([1, 1, 2]))
    ]
    if random.random() < 0.6:
        cuts, crashes = [], []
        for child, parent in enumerate(plan.parents, 1):
            if random.random() < 0.3:
                start = 2 * random.random()
                cuts.append((start, start + random.random(), f"r{child}", f"r{parent}"))
        for number in range(routers):
            if random.random() < 0.3:
                start = 2 * random.random()
                crashes.append((start, start + random.random(), f"r{number}"))
        plan.faults = Faults(random.choice([0.0, 0.1, 0.4]), tuple(cuts), tuple(crashes))
    elif random.random() < 0.3:
        plan.joins = {child: random.random() for child in range(1, routers) if random.random() < 0.5}
    optimizer = OptimizerSettings(random.choice([0.0, 0.3, 0.8, 1.0]), random.choice([None, 0.05, 0.5]))
    plan.settings = PrefixSettings(random.choice([None, None, None, 0, 1, 2]), random.choice([0.5, 1.0]), optimizer)
    plan.kind = "siena" if random.random() < 0.1 else "prefix"
    return plan


def check_plan(plan: Plan) -> Network:
    """Run a plan; nothing may be lost, wrong or double, while things go wrong and after they have gone well again."""
    topology = Topology()
    topology.neighbours["r0"] = []
    for child, parent in enumerate(plan.parents, 1):
        if child in plan.joins:
            topology.neighbours[f"r{child}"] = []
        else:
            topology.link(f"r{parent}", f"r{child}")
    routers: dict[str, Router] = {}
    for name in topology.neighbours:
        routers[name] = PrefixRouter(name, plan.settings) if plan.kind == "prefix" else SienaRouter(name)
    network = Network(topology, routers, plan.seed, plan.faults)
    for number, (start, router, text, end) in enumerate(plan.subscriptions):
        interest = Interest(Filter.parse(text))
        network.at(start, lambda r=router, n=number, i=interest: network.subscribe(f"r{r}", f"s{n}", i))  # type: ignore[misc]
        if end is not None:
            network.at(end, lambda r=router, n=number: network.unsubscribe(f"r{r}", f"s{n}"))  # type: ignore[misc]
    for at, router, content in plan.events:
        network.at(at, lambda r=router, c=content: network.publish(f"r{r}", c))  # type: ignore[misc]
    if plan.kind == "prefix":
        for at, router in plan.optimizers:
            network.at(at, lambda r=router: network.is_up(f"r{r}") and network.optimize(f"r{r}"))  # type: ignore[misc]
    for child, at in plan.joins.items():
        network.at(at, lambda c=child: network.join(f"r{c}", f"r{plan.parents[c - 1]}"))  # type: ignore[misc]
    network.run()
    check_tables(network)
    calm = len(network.history.events)
    for number in range(plan.routers):
        network.publish(f"r{number}", plan.events[number % len(plan.events)][2])
    network.run()
    check_history(network, calm, has_joins=bool(plan.joins))
    return network


def check_tables(network: Network) -> None:
    """When all is quiet, each router has been told exactly what its neighbours have sent."""
    for name, router in network.routers.items():
        for neighbour in router.neighbours:
            bit = network.routers[neighbour]._bits[name]
            told = {key for key, mask in network.routers[neighbour].interests.items() if mask & bit}
            assert told == router._offers[neighbour].sent
            router._offers[neighbour]._check()
            for key, mask in router.interests.items():
                assert (key in router._offers[neighbour]) == bool(mask & ~router._bits[neighbour])
                if key in router._offers[neighbour] and key not in told:
                    filter = router.table[key].filter
                    assert any(router.table[one].filter.covers(filter) for one in told), "a neighbour must know it"
    prefix_routers = [router for router in network.routers.values() if isinstance(router, PrefixRouter)]
    if any(router.optimizer is not None and router.interests for router in prefix_routers):
        versions = {(router.version, len(router.view(router.version).snapshot)) for router in prefix_routers}  # type: ignore[union-attr]
        assert len(versions) == 1, "all routers come to the same tree"


def check_history(network: Network, calm: int, has_joins: bool = False) -> None:
    """The judge of a simulation agrees, and after the calm deliveries are exactly those of `Filter.matches`."""
    history, truth = network.history, Truth()
    for record in history.subscriptions.values():
        truth.add(record.interest)
    if not has_joins:  # nobody knows what is wanted behind a link that is not there
        assert list(history.missing(truth)) == []
    assert list(history.wrong(truth)) == []
    assert history.duplicates() == 0
    for event in history.events:
        assert truth.matching(event.event) == {
            record.interest.key
            for record in history.subscriptions.values()
            if record.interest.filter.matches(Event(event.content))
        }
    live = [record for record in history.subscriptions.values() if record.ended is None]
    for event in history.events[calm:]:
        matching = {record.id for record in live if record.interest.filter.matches(event.content)}
        assert set(event.deliveries) == matching
    for router in network.routers.values():
        assert router.counters.malformed == 0
    if any(isinstance(router, PrefixRouter) for router in network.routers.values()):
        matches = sum(router.counters.content_matches for router in network.routers.values())
        assert matches == len(history.events)
