"""Who makes a request: a token's name, what it may do, and the rules that constrain what it sees and publishes."""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from whimbrel.broker.requests.errors import Forbidden, NotFound, Unauthorized, Unprocessable
from whimbrel.broker.store import StoredSubscription, Token
from whimbrel.model.token_rules import Rules

SCOPES = ("publish", "subscribe", "match", "peer", "schema", "admin")
_PREFIX = "whb"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Principal(NamedTuple):
    """A caller. The scope `admin` contains the others."""

    name: str
    scopes: frozenset[str]
    tenant: str = ""
    rules: Rules = MappingProxyType({})

    def require(self, scope: str) -> None:
        """Raise Forbidden unless the principal has the scope."""
        if scope not in self.scopes and "admin" not in self.scopes:
            raise Forbidden(f"Expected a token with the scope {scope}, but {self.name!r} has not")

    def require_no_rules(self, why: str) -> None:
        """Raise Forbidden if rules constrain the principal; `why` is the reason, for the error."""
        if self.rules:
            raise Forbidden(f"Expected a token without rules: {why}")

    @property
    def sees_all(self) -> bool:
        """Whether it may see what belongs to others."""
        return "admin" in self.scopes and not self.rules

    def check_seen(self, held: StoredSubscription | None, id: str) -> StoredSubscription:
        """A subscription that was found by its id; NotFound if there is none or it belongs to somebody else."""
        if held is None or not (self.sees_all or held.owner == self.name):
            raise NotFound(f"Expected the id of a subscription, but {id[:80]!r} is none")
        return held


ANYBODY = Principal("anonymous", frozenset(SCOPES))
"""The caller of a broker on loopback that has no tokens."""


def new_secret(name: str) -> tuple[str, str]:
    """A new token for a name, as its holder sends it, and the digest to store."""
    secret = secrets.token_urlsafe(32)
    return f"{_PREFIX}.{name}.{secret}", digest_of(secret)


def digest_of(secret: str) -> str:
    """The digest of a secret. The secret has 256 random bits, so a plain digest cannot be turned back."""
    return sha256(secret.encode()).hexdigest()


def authenticate(token: str, tokens: Mapping[str, Token]) -> Principal:
    """The principal of a token; Unauthorized if it is not known. Comparisons take the same time for all secrets."""
    prefix, _, rest = token.partition(".")
    name, _, secret = rest.rpartition(".")
    stored = tokens.get(name) if prefix == _PREFIX else None
    expected = stored.digest if stored is not None else digest_of("")
    if not hmac.compare_digest(digest_of(secret), expected) or stored is None:
        raise Unauthorized("Expected a token that is known here")
    return principal_of_token(stored)


def principal_of_token(token: Token) -> Principal:
    """The principal of a stored token."""
    return Principal(token.name, frozenset(token.scopes.split()), token.tenant, msgspec.json.decode(token.rules))


def check_rights(name: str, scopes: Iterable[str], rules: Rules) -> list[str]:
    """The scopes of a new or changed token, sorted; Unprocessable if it cannot have that name or these rights.

    An admin could give itself a token without rules, so a token with rules cannot be one. Who matches sees all events.
    """
    if not _NAME.fullmatch(name) or name == ANYBODY.name:
        raise Unprocessable(
            f"Expected a name of letters, digits, _ and - other than {ANYBODY.name!r}, but got {name[:80]!r}",
            "invalid-token",
        )
    chosen = sorted(set(scopes))
    unknown = [scope for scope in chosen if scope not in SCOPES]
    if unknown or not chosen:
        found = ", ".join(unknown) or "none"
        raise Unprocessable(f"Expected scopes of {', '.join(SCOPES)}, but got {found[:80]}", "invalid-token")
    if rules and not {"admin", "match"}.isdisjoint(chosen):
        raise Unprocessable("Expected no rules with the scopes admin and match, which see everything", "invalid-token")
    for attribute, value in rules.items():
        if not attribute or not isinstance(value, str | int | float | bool):
            raise Unprocessable(f"Expected rules from attributes to values - at {attribute[:80]!r}", "invalid-token")
    return chosen
