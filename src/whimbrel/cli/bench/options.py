"""The options that several benchmarks share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class ScaleChoice(StrEnum):
    """How large the workloads are."""

    SMALL = "small"
    FULL = "full"


ScaleOption = Annotated[ScaleChoice, typer.Option("--scale", help="Minutes, or the sizes that targets are for.")]
Workloads = Annotated[
    list[str] | None, typer.Option("--workload", help="Only this workload or family; may be repeated.")
]
Works = Annotated[
    list[str] | None,
    typer.Option("--work", help="Only this work, or all of a kind (match, stream, curve...); may be repeated."),
]
MatchOutput = Annotated[
    Path | None, typer.Option("--output", metavar="DIR", help="Write match.json and match.md there.")
]
PipelineOutput = Annotated[
    Path | None,
    typer.Option("--output", metavar="DIR", help="Write pipeline.json and pipeline.md there, after each work."),
]
Page = Annotated[
    Path | None, typer.Option("--page", metavar="FILE", help="Put the tables between the marks of this page.")
]
Repeat = Annotated[int, typer.Option("--repeat", min=1, help="How often; medians are shown.")]
Start = Annotated[bool, typer.Option(help="Measure cold and warm start, too.")]
Master = Annotated[str | None, typer.Option("--master", metavar="URL", help="Where Spark runs.")]
Cache = Annotated[Path | None, typer.Option("--cache", metavar="DIR", help="Where generated workloads are kept.")]
