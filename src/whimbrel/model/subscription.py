"""A subscription: an id, a filter, an owner, and how to deliver."""

from __future__ import annotations

from dataclasses import dataclass

from whimbrel.model.errors import IdKindError
from whimbrel.model.filter import Filter

Id = int | str

_INT64 = 1 << 63


@dataclass(frozen=True, slots=True)
class Subscription:
    """One standing query. `delivery` names a way to deliver; a plain index has no use for it."""

    id: Id
    filter: Filter
    owner: str | None = None
    delivery: str | None = None


def id_kind(id: object) -> str:
    """`int64` or `string`; IdKindError for anything else, a text that has no UTF-8 included."""
    if isinstance(id, str):
        try:
            id.encode()
        except UnicodeEncodeError:
            raise IdKindError(id, "string, without lone surrogates") from None
        return "string"
    if isinstance(id, int) and not isinstance(id, bool) and -_INT64 <= id < _INT64:
        return "int64"
    raise IdKindError(id, "int64 or string")
