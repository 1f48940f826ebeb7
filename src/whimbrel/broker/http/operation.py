"""An operation of the API: its method and path, the function that serves it, and what the OpenAPI document says of it.

A module of endpoints declares its operations where the functions are. Routes and document are made of them, so they
cannot differ.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import cleandoc
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
PAGES: Mapping[str, JsonSchema] = {"after": {"type": "string"}, "limit": PAGE}
"""The query of a list that comes in pages."""
CURSOR: JsonSchema = {"type": "string", "pattern": r"^(-1|[0-9]{1,18})(\.[0-9]{1,9})?$"}
IF_MATCH: Mapping[str, JsonSchema] = {
    "if-match": {"type": "string", "examples": ['"17"'], "description": "The version to change, as ETag said."}
}
TAGGED = ("etag",)
"""The headers of an answer about something that has versions."""

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


class Operation(NamedTuple):
    """One method of one path. `body` has a shape for each media type, `answers` one for each status.

    `errors` are statuses with which it refuses a request, besides those that every operation may answer with.
    """

    id: str
    method: str
    path: str
    endpoint: Endpoint
    summary: str
    answers: Mapping[int, Shape]
    body: Mapping[str, Shape]
    query: Mapping[str, JsonSchema]
    headers: Mapping[str, JsonSchema]
    answer_headers: tuple[str, ...]
    errors: tuple[int, ...]
    description: str


class Operations(list[Operation]):
    """The operations of a module of endpoints. Their ids begin with a `name`, by default that of the module."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        self._name = name

    def add(
        self,
        method: str,
        path: str,
        answers: Mapping[int, Shape],
        body: Mapping[str, Shape] = NONE,
        query: Mapping[str, JsonSchema] = NONE,
        headers: Mapping[str, JsonSchema] = NONE,
        answer_headers: tuple[str, ...] = (),
        errors: tuple[int, ...] = (),
    ) -> Callable[[Endpoint], Endpoint]:
        """Declare that the function below serves an operation; its docstring is the summary, and the description."""

        def declare(endpoint: Endpoint) -> Endpoint:
            id = f"{self._name or endpoint.__module__.rpartition('.')[2]}.{endpoint.__name__}"
            summary, _, text = cleandoc(endpoint.__doc__ or "").partition("\n\n")
            self.append(
                Operation(
                    id, method, path, endpoint, summary, answers, body, query, headers, answer_headers, errors, text
                )
            )
            return endpoint

        return declare


def json_body(shape: Shape) -> Mapping[str, Shape]:
    """A body of JSON."""
    return {"application/json": shape}
