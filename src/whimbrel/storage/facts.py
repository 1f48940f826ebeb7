"""Facts that a caller stores with a saved index or saved spaces, such as the offset of the log that they reflect.

Facts are a small JSON object. They are written in the same atomic step as the state, so that they always describe it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from whimbrel.model.limits import FACTS_BYTES
from whimbrel.storage.errors import FactsError

Facts = Mapping[str, object]
"""A JSON object: string keys; values are null, booleans, numbers, strings, lists and objects."""


def checked_facts(facts: Facts | None) -> dict[str, object]:
    """Return a copy of `facts` as they will come back from disk; an empty dict for None.

    `FactsError` if they would not come back equal (not JSON, NaN, keys that are not strings, tuples);
    `LimitExceeded` if their JSON text is longer than `FACTS_BYTES`.
    """
    try:
        text = json.dumps(dict(facts or {}), allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise FactsError(str(error)) from None
    FACTS_BYTES.check(len(text.encode()), "facts")
    copy: dict[str, object] = json.loads(text)
    if copy != dict(facts or {}):
        raise FactsError("they change when they are written as JSON and read again")
    return copy
