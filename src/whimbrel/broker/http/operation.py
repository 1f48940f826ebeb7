"""An operation of the API: its method and path, the function that serves it, and what the OpenAPI document says of it.

Every module of endpoints ends with its operations. Routes and document are made of them, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

JsonSchema: TypeAlias = Mapping[str, Any]
Shape: TypeAlias = type | JsonSchema | str | None
"""A struct or a schema of JSON, the media type of something else, or None for nothing."""

NONE: Mapping[str, Any] = MappingProxyType({})
LINES = "application/x-ndjson"
OBJECT: JsonSchema = {"type": "object"}
PAGE: JsonSchema = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
CURSOR: JsonSchema = {"type": "string", "pattern": r"^(-1|[0-9]{1,18})(\.[0-9]{1,9})?$"}
IF_MATCH: JsonSchema = {"type": "string", "examples": ['"17"'], "description": "The version to change, as ETag said."}


class Operation(NamedTuple):
    """One method of one path. `body` has a shape for each media type, `answers` one for each status."""

    method: str
    path: str
    endpoint: Callable[[Request], Awaitable[Response]]
    summary: str
    answers: Mapping[int, Shape]
    body: Mapping[str, Shape] = NONE
    query: Mapping[str, JsonSchema] = NONE
    headers: Mapping[str, JsonSchema] = NONE
    answer_headers: tuple[str, ...] = ()


def json_body(shape: Shape) -> Mapping[str, Shape]:
    """A body of JSON."""
    return {"application/json": shape}
