"""Whimbrel: which of millions of standing queries does this event match?

The public face is small: `Index` holds subscriptions and matches events; `Filter` is one standing query;
`Schema` says what events look like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whimbrel import language as _language  # registers the dialects that Filter.parse finds
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.filter import Filter

if TYPE_CHECKING:
    from whimbrel.engine.index import Index
    from whimbrel.model.schema import Schema

    __version__: str

__all__ = ["Filter", "Index", "Schema", "WhimbrelError", "parse"]

parse = _language.parse


def __getattr__(name: str) -> object:
    if name == "Index":  # brings Arrow and the compiled kernels: only for those who use it
        from whimbrel.engine.index import Index

        return Index
    if name == "Schema":
        from whimbrel.model.schema import Schema

        return Schema
    if name == "__version__":
        from importlib.metadata import version

        return version("whimbrel")
    raise AttributeError(f"module 'whimbrel' has no attribute {name!r}")
