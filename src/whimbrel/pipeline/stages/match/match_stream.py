"""The stage that matches a stream of events, against an index whose versions change while it runs."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from whimbrel.pipeline.errors import OptionError
from whimbrel.pipeline.index.batches import BatchVersion
from whimbrel.pipeline.index.store import IndexStore
from whimbrel.pipeline.stages.match.match import match_everywhere
from whimbrel.pipeline.stages.match.options import MatchJob, MatchOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def match_stream(
    events: DataFrame,
    index: str | os.PathLike[str],
    *,
    key: str | Sequence[str] | None = None,
    form: str = "pairs",
    json: str | None = None,
    timestamps: Collection[str] = (),
    adopt: bool = False,
) -> DataFrame:
    """The subscriptions that each event of a stream matches, as `match` gives them for events at rest.

    `index` is the path of an index that `compile_index` has published. Every micro-batch is matched against exactly
    one version, the newest one when its first task starts. The version is recorded in the index before it is used (see
    `whimbrel.pipeline.index.batches`), and a replay of the batch uses the same one. A version that is published while
    the stream runs counts from the next micro-batch on; the stream need not be restarted.

    All columns are sent to the workers, because a later version may mention any of them: select what can matter, or
    name a text column with `json`. The checkpoint of a query belongs to one index; with another one it is refused,
    unless `adopt` says that this is intended. `key`, `form` and `timestamps` are those of `match`.
    """
    if not events.isStreaming:
        raise OptionError("events", "a DataFrame at rest", "a streaming DataFrame (match takes the others)")
    options = MatchOptions(key=key, form=form, json=json, timestamps=tuple(timestamps))
    keys = options.key_columns(events.columns)
    store = IndexStore(index)
    transfer = options.transfer(events.schema, None)
    job = MatchJob(store.path, store.manifest().kind, BatchVersion(store.path, adopt), keys, transfer, options)
    return match_everywhere(events, job)
