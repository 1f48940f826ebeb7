"""What `whimbrel bench pipeline` measures: frozen works with their sizes and targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from whimbrel.lab.measure.matching.cases import Parameters, Scale
from whimbrel.lab.measure.matching.verdicts import Verdict

Kind = Literal["match", "stream", "open", "compile", "curve", "handover"]


@dataclass(frozen=True, slots=True)
class Aim:
    """A target of one figure; `least` if more is better."""

    what: str
    target: float
    least: bool


@dataclass(frozen=True, slots=True)
class Work:
    """A work by name: what kind it is, on which workload, and its parameters at full and at small scale.

    `n` and `events` are those of the workload; a curve has `sizes` instead of n. `options` are those of the kind.
    """

    name: str
    kind: Kind
    workload: str
    full: Parameters
    small: Parameters
    aims: tuple[Aim, ...] = ()
    sizes: tuple[int, ...] = ()
    small_sizes: tuple[int, ...] = ()
    said: str = ""
    """What was measured once of plain Spark: a quotation, no result."""

    def parameters(self, scale: Scale) -> Parameters:
        """The parameters at a scale."""
        return self.full if scale == "full" else {**self.full, **self.small}

    def sizes_at(self, scale: Scale) -> tuple[int, ...]:
        """The numbers of subscriptions of a curve."""
        return self.sizes if scale == "full" else self.small_sizes

    def verdicts(self, figures: dict[str, float | None]) -> list[Verdict]:
        """What came of the targets."""
        return [Verdict(aim.what, aim.target, figures.get(aim.what), aim.least) for aim in self.aims]
