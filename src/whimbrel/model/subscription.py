"""A subscription: an id, a filter, an owner, and how to deliver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

from whimbrel.model.errors import IdKindError, MalformedSubscription
from whimbrel.model.filter import Filter
from whimbrel.model.options import found_text
from whimbrel.model.values import is_text

if TYPE_CHECKING:
    import pyarrow as pa

Id = int | str

_INT64 = 1 << 63
_PAIRS = "pairs of id and filter"


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
        if not is_text(id):
            raise IdKindError(id, "string, without lone surrogates")
        return "string"
    is_integer = type(id) is int or (isinstance(id, Integral) and not isinstance(id, bool))  # the second is slow
    if is_integer and -_INT64 <= int(id) < _INT64:  # type: ignore[call-overload]
        return "int64"
    raise IdKindError(id, "int64 or string")


def plain_id(id: Id) -> Id:
    """The id as int or str: NumPy has its own kinds of them. What is no id stays as it is, to be refused."""
    if type(id) in (int, str) or isinstance(id, bool):
        return id
    return str(id) if isinstance(id, str) else int(id) if isinstance(id, Integral) else id


def pairs_of(subscriptions: Iterable[tuple[Id, object]]) -> Iterator[tuple[Id, object]]:
    """The pairs of id and filter; MalformedSubscription for the first item that is none."""
    if isinstance(subscriptions, str | Mapping) or not isinstance(subscriptions, Iterable):
        hint = ", whose items() are pairs" if isinstance(subscriptions, Mapping) else ""
        raise MalformedSubscription(
            f"{_PAIRS}, or a table with the columns id and filter", found_text(subscriptions) + hint
        )
    for row, pair in enumerate(subscriptions):
        if not isinstance(pair, tuple | list):
            raise MalformedSubscription(_PAIRS, found_text(pair), row)
        if len(pair) != 2:
            raise MalformedSubscription(_PAIRS, f"{len(pair)} items", row)
        yield pair[0], pair[1]


def check_columns(table: pa.Table) -> None:
    """Raise MalformedSubscription unless the table has the columns id and filter, each once and without nulls."""
    for name in ("id", "filter"):
        if table.column_names.count(name) != 1:
            raise MalformedSubscription("the columns id and filter, each once", ", ".join(table.column_names) or "none")
        column = table.column(name)
        if column.null_count:
            raise MalformedSubscription(f"a value in column {name}", "null", column.is_null().to_pylist().index(True))


def ids_and_filters(subscriptions: Iterable[tuple[Id, object]] | pa.Table) -> tuple[list[Id], list[object]]:
    """The ids and the filters of pairs, or of an Arrow table with columns id and filter."""
    import pyarrow as pa

    if isinstance(subscriptions, pa.Table):
        check_columns(subscriptions)
        return subscriptions["id"].to_pylist(), subscriptions["filter"].to_pylist()
    pairs = list(pairs_of(subscriptions))
    return [plain_id(id) for id, _ in pairs], [filter for _, filter in pairs]
