"""What is measured: a frozen workload with its sizes, its targets, and what is known of others on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scale = Literal["small", "full"]
Parameters = dict[str, int | float]


@dataclass(frozen=True, slots=True)
class Target:
    """The aim of match_blocks on one core, encoding included: events per second, and how many times compiled naive."""

    events_per_second: float
    times_naive: float


@dataclass(frozen=True, slots=True)
class Peer:
    """The strongest matcher of others on this workload, measured apart on a like machine: a quotation, no result."""

    name: str
    us_per_event: float
    remark: str = ""


@dataclass(frozen=True, slots=True)
class MatchCase:
    """A workload by name with the parameters of its full and of its small form; a target holds for the full form.

    `papers` is how many of the subscriptions the papers' matchers are given that load in bulk: what all of them take
    in a minute or two.
    """

    name: str
    workload: str
    full: Parameters
    small: Parameters
    matches: str
    papers: int
    target: Target | None = None
    peer: Peer | None = None

    def parameters(self, scale: Scale) -> Parameters:
        """The parameters of the workload at a scale."""
        return self.full if scale == "full" else {**self.full, **self.small}


@dataclass(frozen=True, slots=True)
class MatchTargets:
    """The targets that do not belong to one workload; `*_on` names the workloads that one is for."""

    batch_ratio: float
    both_cores: float
    single_us: float
    single_outside: float
    single_on: frozenset[str]
    columnar_per_second: float
    text_per_second: float
    text_both_cores_per_second: float
    bytes_per_subscription: float
    bytes_on: frozenset[str]
    cold_seconds: float
    warm_seconds: float
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim about two competitors on a workload: `slower` takes at least `times` as long per event as `faster`.

    With `times` below 1 it bounds how far `faster` may fall behind.
    """

    workload: str
    faster: str
    slower: str
    times: float = 1.0
