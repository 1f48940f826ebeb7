"""The OpenAPI document, made from the operations and their structs, and a page that shows it without scripts."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from importlib.metadata import version
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from whimbrel.broker.http.exchange import ErrorAnswer, answer
from whimbrel.broker.http.operation import Operation, Shape

_TEMPLATE = "#/components/schemas/{name}"
_REFUSED = {
    "4XX": "The request was refused.",
    "503": "The broker takes nothing now; Retry-After says when to come again.",
}


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The document in OpenAPI 3.1."""
    structs = list(dict.fromkeys(shape for shape in _shapes(operations) if isinstance(shape, type)))
    references, components = msgspec.json.schema_components(structs, ref_template=_TEMPLATE)
    schemas = dict(zip(structs, references, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Whimbrel",
            "version": version("whimbrel"),
            "description": "Publish events, subscribe with filters over their content, and get what matches.",
        },
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{"token": []}, {}],
    }


def _shapes(operations: Iterable[Operation]) -> Iterable[Shape]:
    yield ErrorAnswer
    for operation in operations:
        yield from operation.answers.values()
        yield from operation.body.values()


def _described(operation: Operation, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    """Describe one operation: its parameters, body and answers."""
    in_path = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in in_path]
    for place, found in (("query", operation.query), ("header", operation.headers)):
        parameters += [{"name": name, "in": place, "schema": schema} for name, schema in found.items()]
    described: dict[str, Any] = {
        "operationId": operation.id,
        "tags": [operation.path.split("/")[1]],
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {},
    }
    if operation.description:
        described["description"] = " ".join(operation.description.split())
    if operation.body:
        content = {kind: {"schema": _schema(shape, schemas)} for kind, shape in operation.body.items()}
        described["requestBody"] = {"required": True, "content": content}
    for status, shape in {**operation.answers, **dict.fromkeys(operation.errors, ErrorAnswer)}.items():
        described["responses"][str(status)] = _response(operation, status, shape, schemas)
    for refused, text in _REFUSED.items():
        described["responses"].setdefault(refused, {"description": text} | _content(ErrorAnswer, schemas))
    return described


def _response(operation: Operation, status: int, shape: Shape, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"description": "Done." if status < 400 else "Refused."} | _content(shape, schemas)
    if status < 300 and operation.answer_headers:
        found["headers"] = {name: {"schema": {"type": "string"}} for name in operation.answer_headers}
    return found


def _content(shape: Shape, schemas: Mapping[Any, Any]) -> dict[str, Any]:
    if shape is None:
        return {}
    kind = shape if isinstance(shape, str) else "application/json"
    return {"content": {kind: {"schema": _schema(shape, schemas)}}}


def _schema(shape: Shape, schemas: Mapping[Any, Any]) -> Any:
    if isinstance(shape, str):
        return {"type": "string"}
    return schemas[shape] if isinstance(shape, type) else shape


class Documents:
    """The document and the page of some operations, made when they are first asked for."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations

    @cached_property
    def _document(self) -> dict[str, Any]:
        return openapi_document(self._operations)

    async def openapi(self, _: Request) -> Response:
        """GET /openapi.json."""
        return answer(self._document)

    async def docs(self, _: Request) -> Response:
        """GET /docs: the operations on one page, which loads nothing else."""
        policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"
        return HTMLResponse(_page(self._document), headers={"content-security-policy": policy})


_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui;margin:2rem auto;max-width:60rem;padding:0 1rem}"
    "summary{cursor:pointer;padding:.2rem 0}summary code{display:inline-block;min-width:4rem}"
    "pre{overflow:auto;padding:.6rem;border:1px solid #8886;border-radius:.4rem}"
    "td{padding:.1rem 1rem .1rem 0;vertical-align:top}details{border-bottom:1px solid #8884}"
)
_TRY = """curl -N 'BROKER/stream?filter=data.price%20%3C%205'
curl BROKER/events -H 'content-type: application/json' -d '{"price": 3}'
curl BROKER/subscriptions -H 'content-type: application/json' -d '{"filter": "data.price < 5"}'
curl BROKER/subscriptions/ID/messages"""


def _page(document: dict[str, Any]) -> str:
    """The page: every operation with its parameters, body and answers, and the schemas that they name."""
    title = f"Whimbrel {document['info']['version']}"
    operations = "".join(
        _operation_html(method.upper(), path, described)
        for path, methods in document["paths"].items()
        for method, described in methods.items()
    )
    schemas = "".join(
        f'<details id="{html.escape(name)}"><summary><code>{html.escape(name)}</code>'
        f" {html.escape(str(schema.get('description', '')))}</summary>{_json_html(schema)}</details>"
        for name, schema in document["components"]["schemas"].items()
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
        f'<p>The HTTP interface of this broker, also as <a href="/openapi.json">openapi.json</a>.</p>'
        f"<pre>{html.escape(_TRY)}</pre><h2>Operations</h2>{operations}<h2>Schemas</h2>{schemas}</html>"
    )


def _operation_html(method: str, path: str, described: dict[str, Any]) -> str:
    rows = [
        (f"{one['in']} {one['name']}", msgspec.json.encode(one["schema"]).decode()) for one in described["parameters"]
    ]
    rows += [
        (f"body {kind}", _shape_text(one))
        for kind, one in described.get("requestBody", {"content": {}})["content"].items()
    ]
    rows += [
        (f"answer {status}", ", ".join(_shape_text(one) for one in one.get("content", {}).values()) or "nothing")
        for status, one in described["responses"].items()
    ]
    table = "".join(
        f"<tr><td>{html.escape(name)}</td><td><code>{html.escape(text)}</code></td></tr>" for name, text in rows
    )
    summary = f"<code>{method}</code> <code>{html.escape(path)}</code> {html.escape(described['summary'])}"
    return f"<details><summary>{summary}</summary><table>{table}</table></details>"


def _shape_text(content: dict[str, Any]) -> str:
    """The name of a schema, or the schema itself where it is short."""
    schema = content["schema"]
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    text = msgspec.json.encode(schema).decode()
    return text if len(text) < 120 else "see openapi.json"


def _json_html(value: object) -> str:
    text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
    return f"<pre>{html.escape(text)}</pre>"
