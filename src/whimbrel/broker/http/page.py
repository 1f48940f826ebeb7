"""The live page: its files, logging in and out, and the feed that it follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

import msgspec
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from whimbrel.broker.http.exchange import answer, broker_of, caller_of, principal_of, read_body
from whimbrel.broker.http.guard import FILES, own_origin
from whimbrel.broker.http.operation import Operations, json_body
from whimbrel.broker.page.sessions import cookie, session_name
from whimbrel.broker.requests.errors import Forbidden, NotFound
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import Principal, authenticate
from whimbrel.model.errors import WhimbrelError

FILE_PATH = FILES + "{name:path}"
LOGIN_BYTES = 4 << 10
"""The body of a login, at most: strangers must not use up what the bodies of all requests may take together."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


class LoginRequest(msgspec.Struct, forbid_unknown_fields=True):
    """A token, as `whimbrel token create` printed it."""

    token: str


class SessionAnswer(msgspec.Struct):
    """Who calls: the name of the token and its scopes, whether rules constrain it, and whether there is a log-out."""

    name: str
    scopes: list[str]
    constrained: bool
    session: bool


class _File(NamedTuple):
    content: bytes
    kind: str
    tag: str


@cache
def _files() -> dict[str, _File]:
    """The files of the page by name, read once: nothing else can be asked for."""
    return dict(_read(files("whimbrel.broker.page").joinpath("static"), ""))


def _read(folder: Traversable, prefix: str) -> list[tuple[str, _File]]:
    found: list[tuple[str, _File]] = []
    for one in folder.iterdir():
        if one.is_dir():
            found += _read(one, f"{prefix}{one.name}/")
        else:
            content = one.read_bytes()
            tag = f'"{blake2b(content, digest_size=8).hexdigest()}"'
            found.append((prefix + one.name, _File(content, _TYPES[one.name.rpartition(".")[2]], tag)))
    return found


async def page(request: Request) -> Response:
    """GET /: the live page."""
    return _file_answer(request, "index.html")


async def file(request: Request) -> Response:
    """GET /page/...: a file that the live page loads."""
    return _file_answer(request, request.path_params["name"])


def _file_answer(request: Request, name: str) -> Response:
    found = _files().get(name)
    if found is None:
        raise NotFound(f"Expected a file of the live page, but {name[:80]!r} is none")
    headers = {**_HEADERS, "etag": found.tag}
    if request.headers.get("if-none-match") == found.tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.kind, headers=headers)


OPERATIONS = Operations()


@OPERATIONS.add("POST", "/login", {200: SessionAnswer}, json_body(LoginRequest), errors=(401, 413, 422))
async def login(request: Request) -> Response:
    """Begin a session of the live page, kept by a cookie."""
    broker = broker_of(request)
    _check_origin(request)
    asked = await read_body(request, LoginRequest, "invalid-token", LOGIN_BYTES)
    principal = authenticate(asked.token.strip()[:1024], broker.tokens.stored)
    name = broker.sessions.begin(broker.tokens.stored[principal.name])
    return answer(_session(principal, True), 200, {"set-cookie": cookie(name, request.url.scheme == "https")})


@OPERATIONS.add("POST", "/logout", {204: None})
async def logout(request: Request) -> Response:
    """End a session of the live page."""
    _check_origin(request)
    broker_of(request).sessions.end(session_name(request.headers.get("cookie", "")) or "")
    return Response(status_code=204, headers={"set-cookie": cookie("", request.url.scheme == "https")})


def _check_origin(request: Request) -> None:
    """Forbidden unless the request comes from our own page: no other page may log a browser in or out."""
    origin = request.headers.get("origin")
    if origin is not None and origin != own_origin(request.scope, Headers(scope=request.scope)):
        raise Forbidden("Expected a request of the broker's own page")


@OPERATIONS.add("GET", "/session", {200: SessionAnswer}, errors=(401,))
async def session(request: Request) -> Response:
    """Say who calls."""
    has_session = "authorization" not in request.headers and broker_of(request).needs_tokens
    return answer(_session(caller_of(request), has_session))


def _session(principal: Principal, has_session: bool) -> SessionAnswer:
    return SessionAnswer(principal.name, sorted(principal.scopes), bool(principal.rules), has_session)


@OPERATIONS.add("GET", "/live", {200: "text/event-stream"})
async def live(request: Request) -> Response:
    """Rates, latencies and matched events, each second."""
    principal = principal_of(request, "subscribe")
    principal.require_no_rules("this shows everybody's events")
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_seconds(broker_of(request), principal), headers=headers, media_type="text/event-stream")


async def _seconds(broker: Broker, principal: Principal) -> AsyncIterator[bytes]:
    name = b"history"
    feed = broker.feed.follow()
    try:
        async for content in feed:
            try:
                broker.tokens.check_current(principal)
            except WhimbrelError:
                yield b'event: end\ndata: {"reason": "token-changed"}\n\n'
                return
            yield b"event: %b\ndata: %b\n\n" % (name, content.replace(b"\n", b" ").replace(b"\r", b" "))
            name = b"second"
    finally:
        await asyncio.shield(feed.aclose())
