"""Sessions of the live page: a browser shows a token once and gets a cookie, because EventSource sends no headers.

A session is a random name that this process knows. It ends with the process, with its token, or when it is old.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from time import monotonic
from typing import NamedTuple

from whimbrel.broker.store import Token

COOKIE = "whimbrel_session"
SESSION_SECONDS = 12 * 3600.0
"""How long a session lasts."""
SESSIONS = 1_000
"""Sessions at one time; the oldest ends when one more begins."""


class _Session(NamedTuple):
    token: str
    digest: str
    ends: float


class Sessions:
    """Who is logged in. Used in the event loop only."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}

    def begin(self, token: Token) -> str:
        """A new session of a token; returns its name."""
        if len(self._sessions) >= SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[name] = _Session(token.name, token.digest, monotonic() + SESSION_SECONDS)
        return name

    def token(self, name: str, tokens: Mapping[str, Token]) -> Token | None:
        """The token of a session; None if there is no such session, or its token is no longer what it was."""
        session = self._sessions.get(name)
        if session is None:
            return None
        token = tokens.get(session.token)
        if token is None or token.digest != session.digest or monotonic() > session.ends:
            del self._sessions[name]
            return None
        return token

    def end(self, name: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(name, None)


def session_name(header: str) -> str | None:
    """The name of a session in a Cookie header."""
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return None if found is None else found.value


def cookie(name: str, secure: bool) -> str:
    """The Set-Cookie header that begins a session, or with an empty name ends it."""
    age = int(SESSION_SECONDS) if name else 0
    return f"{COOKIE}={name}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
