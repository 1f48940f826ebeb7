"""Why a stream refuses to go on: its checkpoint belongs to something else, or what was recorded is damaged."""

from __future__ import annotations

from pathlib import Path

from whimbrel.pipeline.errors import PipelineError


class OtherLog(PipelineError):
    """A checkpoint of another log: the id that it `expected`, and the one `found` at `path`."""

    def __init__(self, path: str | Path, expected: str, found: str) -> None:
        self.path = str(path)
        self.expected = expected
        self.found = found
        super().__init__(
            f"Expected the log {expected} that the checkpoint has read from, but got {found} - at {path}; "
            "give the query the log or the checkpoint that it had before, or a new checkpoint"
        )


class OtherIndex(PipelineError):
    """A checkpoint of another index: `query` is at batch `batch`, of which the index at `path` knows nothing."""

    def __init__(self, path: str | Path, query: str, batch: int) -> None:
        self.path = str(path)
        self.query = query
        self.batch = batch
        super().__init__(
            f"Expected a checkpoint of this index, but query {query} is at batch {batch} and none of its batches are "
            f"recorded - at {path}; give the query the index or the checkpoint that it had before, a new checkpoint, "
            "or adopt=True"
        )


class BadRecord(PipelineError):
    """The record of a batch's index version that cannot be read: what the `problem` is."""

    def __init__(self, path: str | Path, problem: str) -> None:
        self.path = str(path)
        self.problem = problem
        super().__init__(f"Expected the index version of a batch, but {problem} - at {path}")


class NoBatch(PipelineError):
    """A stream's function that runs outside of a micro-batch, where no version can be recorded."""

    def __init__(self) -> None:
        super().__init__("Expected a micro-batch of a streaming query, but got a task without one")
