"""The schema over HTTP: GET /schema, GET /schema/views, POST /schema/extensions."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.broker.http.exchange import answer, body_of, broker_of, caller_of, principal_of
from whimbrel.broker.http.operation import OBJECT, Operations, json_body
from whimbrel.broker.requests.errors import BadRequest, Forbidden
from whimbrel.broker.requests.schema_extensions import ExtensionsRequest, read_extensions
from whimbrel.broker.service.schema_service import etag_of

VIEW_TYPES = 1_000
"""Types of one view, at most."""
_READERS = ("publish", "subscribe", "schema", "admin")


class ViewAttribute(msgspec.Struct):
    """What events of some types say of an attribute together."""

    name: str
    domain: str
    mandatory: bool
    multiple: bool


class SchemaView(msgspec.Struct):
    """What an event of all of these types must and may have; it names them in the type attribute."""

    types: list[str]
    type_attribute: str
    attributes: list[ViewAttribute]


class ExtensionsAnswer(msgspec.Struct):
    """The offset of each extension in the log; null if it was there already. `version` counts extensions."""

    offsets: list[int | None]
    version: int


def _check_reader(request: Request) -> None:
    """Whoever publishes or subscribes may read the schema."""
    if not caller_of(request).scopes & frozenset(_READERS):
        raise Forbidden(f"Expected a token with a scope of {', '.join(_READERS)}")


_IF_NONE_MATCH = {"if-none-match": {"type": "string", "description": "Answer 304 if this is still the ETag."}}
OPERATIONS = Operations()


@OPERATIONS.add(
    "GET", "/schema", {200: OBJECT, 304: None}, headers=_IF_NONE_MATCH, answer_headers=("etag",), errors=(404,)
)
async def schema(request: Request) -> Response:
    """The schema, extensions included, as a document that --schema takes."""
    _check_reader(request)
    document, etag = broker_of(request).schemas.document()
    return _cached(request, document, etag)


@OPERATIONS.add(
    "GET",
    "/schema/views",
    {200: SchemaView, 304: None},
    query={"types": {"type": "string", "examples": ["antiques,furniture"]}},
    headers=_IF_NONE_MATCH,
    answer_headers=("etag",),
    errors=(404, 422),
)
async def view(request: Request) -> Response:
    """What an event of some types must and may have."""
    _check_reader(request)
    types = [name for name in request.query_params.get("types", "").split(",") if name]
    if not 1 <= len(types) <= VIEW_TYPES:
        raise BadRequest(f"Expected types=a,b with 1 to {VIEW_TYPES:,} event types")
    found = broker_of(request).schemas.view(types)
    return _cached(request, found, etag_of(found))


@OPERATIONS.add(
    "POST", "/schema/extensions", {200: ExtensionsAnswer}, json_body(ExtensionsRequest), errors=(404, 409, 422)
)
async def extend(request: Request) -> Response:
    """Extend the schema, by all extensions or none. Events and filters after their offsets use it."""
    broker, principal = broker_of(request), principal_of(request, "schema")
    extensions = read_extensions(await body_of(request))
    offsets = await broker.schemas.extend(extensions, principal)
    return answer(ExtensionsAnswer(offsets, broker.schemas.extended))


def _cached(request: Request, content: Any, etag: str) -> Response:
    """An answer with an ETag; 304 if the caller has it."""
    known = [one.strip() for one in request.headers.get("if-none-match", "").split(",")]
    if etag in known or "*" in known:
        return Response(status_code=304, headers={"etag": etag})
    return answer(content, headers={"etag": etag})
