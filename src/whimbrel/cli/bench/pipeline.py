"""What `whimbrel bench pipeline` shows: progress while it runs, tables at the end, files as soon as a work is done."""

from __future__ import annotations

import sys
from pathlib import Path

from whimbrel.cli.bench.match import show, shown_progress
from whimbrel.cli.terminal.console import say, to_json
from whimbrel.lab.measure.pipeline.pipeline_run import PipelineSettings, Result, run
from whimbrel.lab.measure.pipeline.pipeline_tables import insert, tables_of, write


def measure(settings: PipelineSettings, output: Path | None, page: Path | None, json: bool) -> Result:
    """Run, write the files, and show the tables or the JSON."""
    if page is not None and not page.is_file():
        raise FileNotFoundError(f"Expected a page with marks for the results, but there is no {page}")
    with shown_progress(json) as progress:
        result = run(settings, progress, lambda known: _keep(known, output))
    if page is not None:
        insert(result, page)
    if json:
        sys.stdout.write(to_json(result) + "\n")
        return result
    show(tables_of(result))
    for path in (output, page):
        if path is not None:
            say(f"wrote {path}")
    return result


def _keep(result: Result, output: Path | None) -> None:
    if output is not None:
        write(result, output)
