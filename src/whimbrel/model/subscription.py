"""A subscription: an id, a filter, an owner, and how to deliver."""

from __future__ import annotations

from dataclasses import dataclass

from whimbrel.model.errors import IdKindError
from whimbrel.model.filter import Filter

Id = int | str

_INT64 = 1 << 63


@dataclass(frozen=True, slots=True)
class Subscription:
    """One standing query. `owner` and `delivery` are for the broker; an index does not use them."""

    id: Id
    filter: Filter
    owner: str | None = None
    delivery: str | None = None


def id_kind(id: object) -> str:
    """`int64` or `string`; IdKindError for anything else, and for text with lone surrogates."""
    if isinstance(id, str):
        try:
            id.encode()
        except UnicodeEncodeError:
            raise IdKindError(id, "string, without lone surrogates") from None
        return "string"
    if isinstance(id, int) and not isinstance(id, bool) and -_INT64 <= id < _INT64:
        return "int64"
    raise IdKindError(id, "int64 or string")
