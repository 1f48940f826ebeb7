"""What a request must pass before an endpoint sees it: size, host and origin, token, rate. Pure ASGI.

Cheap checks come first, so that a stranger without a token costs little. Without tokens a broker on loopback is open,
but only to requests whose Host is a loopback name and whose Origin, if any, is the broker's own: a web page whose name
was rebound to 127.0.0.1 is neither.
"""

from __future__ import annotations

from collections import Counter
from time import monotonic

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whimbrel.broker.http.exchange import Bodies, error_answer
from whimbrel.broker.page.sessions import session_name
from whimbrel.broker.requests.envelope import is_lines
from whimbrel.broker.requests.errors import BadRequest, BrokerError, Forbidden, TooLarge, TooManyRequests, Unauthorized
from whimbrel.broker.requests.settings import is_loopback
from whimbrel.broker.service.broker import Broker
from whimbrel.broker.service.principal import ANYBODY, Principal, principal_of_token
from whimbrel.broker.webhooks.consent import CALLBACK_PATH

OPEN_PATHS = frozenset({"/", "/healthz", "/readyz", "/openapi.json", "/docs", "/login", "/logout"})
"""Paths that need no token, besides the files of the live page."""
FILES = "/page/"
"""Where the files of the live page are."""
NOBODY = Principal("nobody", frozenset())
"""The caller of these paths, whoever it is."""
ONCE = frozenset(
    [
        "authorization",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "if-match",
        "last-event-id",
        "origin",
        "webhook-allowed-rate",
    ]
)
"""Headers that have one value."""


class Guard:
    """Checks a request, and puts its principal into the scope."""

    def __init__(self, app: ASGIApp, broker: Broker) -> None:
        self._app = app
        self._broker = broker
        self._settings = broker.settings
        self._requests = RateLimits(broker.settings.requests_per_second)
        self._bodies = Bodies(broker.settings.bodies_bytes)
        self._open = 0
        self._by_name: Counter[str] = Counter()  # open requests of each principal but NOBODY

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request or a WebSocket. The server sends no other scopes."""
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        allowed = origin is not None and origin in self._settings.cors_origins
        if allowed and scope["type"] == "http":
            assert origin is not None
            send = _with_cors(send, origin)
            if scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
                await _preflight(send)
                return
        self._open += 1
        name = ""
        try:
            if self._open > self._settings.connections and scope["path"] not in OPEN_PATHS:
                raise TooManyRequests(f"Expected at most {self._settings.connections:,} open requests")
            _check_once(headers)
            self._check_size(scope, headers)
            scope["whimbrel.bodies"] = self._bodies
            principal = scope["whimbrel.principal"] = self._principal(scope, headers, allowed)
            if principal is not NOBODY:  # or strangers who are slow would keep others from /healthz
                name = principal.name
                self._by_name[name] += 1
            limit = self._settings.connections_per_token
            if 0 < limit < self._by_name[name]:
                raise TooManyRequests(f"Expected at most {limit:,} open requests of {name!r}")
        except BrokerError as error:
            await error_answer(error)(scope, receive, send)
        else:
            await self._app(scope, receive, send)
        finally:
            self._open -= 1
            self._bodies.give_back(scope)
            if name:
                self._by_name[name] -= 1
                if not self._by_name[name]:
                    del self._by_name[name]

    def _check_size(self, scope: Scope, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()):
            raise BadRequest("Expected Content-Length to be a number")
        if scope["path"] == "/events" and is_lines(headers.get("content-type", "")):
            return  # a stream, which is read in groups
        if len(length) > 18 or int(length) > self._settings.body_bytes:
            raise TooLarge(f"Expected a body of at most {self._settings.body_bytes:,} bytes")

    def _principal(self, scope: Scope, headers: Headers, allowed_origin: bool) -> Principal:
        if scope["path"] in OPEN_PATHS or scope["path"].startswith((FILES, CALLBACK_PATH)):
            return NOBODY
        token = headers.get("authorization")
        session = headers.get("cookie") if token is None and self._broker.needs_tokens else None
        if token is not None:
            scheme, _, secret = token.partition(" ")
            if scheme.lower() != "bearer" or len(secret) > 1024:
                raise Unauthorized("Expected Authorization: Bearer TOKEN")
            principal = self._broker.tokens.authenticate(secret.strip())
        elif session is not None:
            principal = self._of_session(scope, headers, session)
        elif self._broker.needs_tokens:
            raise Unauthorized("Expected Authorization: Bearer TOKEN")
        else:
            self._check_local(scope, headers, allowed_origin)
            principal = ANYBODY
        self._requests.take(principal.name, 1)
        return principal

    def _of_session(self, scope: Scope, headers: Headers, header: str) -> Principal:
        """The principal of a browser that is logged in. Requests that change something must come from our own page."""
        held = self._broker.sessions.token(session_name(header) or "", self._broker.tokens.stored)
        if held is None:
            raise Unauthorized("Expected a session that is known here: log in again")
        if scope.get("method") not in ("GET", "HEAD") and headers.get("origin") != own_origin(scope, headers):
            raise Forbidden("Expected a request of the broker's own page")
        return principal_of_token(held)

    def _check_local(self, scope: Scope, headers: Headers, allowed_origin: bool) -> None:
        host = headers.get("host", "")
        if not is_loopback(_name_of(host)):
            raise Forbidden("Expected Host to be a loopback name, because this broker has no tokens")
        origin = headers.get("origin")
        if origin is not None and not allowed_origin and origin != own_origin(scope, headers):
            raise Forbidden("Expected no Origin but our own, because this broker has no tokens")


def own_origin(scope: Scope, headers: Headers) -> str:
    """The origin of our own pages, as the request names us."""
    scheme = {"ws": "http", "wss": "https"}.get(scope["scheme"], scope["scheme"])
    return f"{scheme}://{headers.get('host', '')}"


class RateLimits:
    """A rate per principal, with bursts of two seconds; 0 for no limit."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._levels: dict[str, tuple[float, float]] = {}  # what is left, and when that was

    def take(self, name: str, count: float) -> None:
        """Use some of the rate; TooManyRequests if there is not enough."""
        if self._rate <= 0:
            return
        now = monotonic()
        left, then = self._levels.get(name, (2 * self._rate, now))
        left = min(2 * self._rate, left + (now - then) * self._rate)
        if left < min(count, self._rate):  # a request larger than the rate waits for a full second's worth
            self._levels[name] = left, now
            raise TooManyRequests(
                f"Expected at most {self._rate:g} per second", (min(count, self._rate) - left) / self._rate
            )
        self._levels[name] = left - count, now

    def give_back(self, name: str, count: float) -> None:
        """Return what was used for a request that was not served."""
        if name in self._levels:
            left, then = self._levels[name]
            self._levels[name] = left + count, then


def _check_once(headers: Headers) -> None:
    """Refuse a header that comes twice although it has one value."""
    names = headers.keys()
    if len(set(names)) == len(names):
        return
    twice = [name for name, count in Counter(names).items() if count > 1 and (name in ONCE or name.startswith("ce-"))]
    if twice:
        raise BadRequest(f"Expected each header once, but got several of {', '.join(sorted(twice))[:200]}")


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _with_cors(send: Send, origin: str) -> Send:
    async def sender(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message.get("headers", []),
                (b"access-control-allow-origin", origin.encode()),
                (b"access-control-expose-headers", b"etag, location, retry-after"),
                (b"vary", b"origin"),
            ]
        await send(message)

    return sender


async def _preflight(send: Send) -> None:
    headers = [
        (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
        (b"access-control-allow-headers", b"authorization, *"),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body"})
