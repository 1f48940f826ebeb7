"""The tokens of a broker: create, change and revoke them, and say which rules hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from whimbrel.broker.delivery.hub import Hub
from whimbrel.broker.requests.entries import Change, SubscriptionEnd, SubscriptionPut, TokenEnd, TokenPut
from whimbrel.broker.requests.errors import BrokerError, Conflict, NotFound, Unauthorized
from whimbrel.broker.service.pending import Pending
from whimbrel.broker.service.principal import (
    ANYBODY,
    Principal,
    authenticate,
    check_rights,
    new_secret,
    principal_of_token,
)
from whimbrel.broker.service.runtime import Runtime
from whimbrel.broker.service.subscription_registry import Registry
from whimbrel.broker.store import Store, StoredSubscription, Token
from whimbrel.model.token_rules import Rules


@dataclass(eq=False)
class Tokens:
    """Who may call. `stored` is what the store holds; the sequencer also knows changes that are not on disk yet."""

    _runtime: Runtime
    _registry: Registry
    _store: Store
    _hub: Hub

    def __post_init__(self) -> None:
        self._pending = Pending(self._stored_put)
        self.stored: dict[str, Token] = {}
        self.internal: dict[str, Token] = {}
        """Tokens of the broker's own processes, which live as long as it does and are in no log."""
        self.folded(())

    def folded(self, changes: Sequence[tuple[int, Change]]) -> None:
        """Note that the store has applied changes, some of them of tokens."""
        self.stored = {token.name: token for token in self._store.tokens()}
        for offset, change in changes:
            if isinstance(change, TokenPut | TokenEnd):
                self._pending.folded(change.name, offset)

    def create_internal(self, name: str, scope: str) -> str:
        """Create a token for a process that the broker starts. It is not stored."""
        token, digest = new_secret(name)
        self.internal[name] = Token(name, digest, scope, "", "{}")
        return token

    def authenticate(self, secret: str) -> Principal:
        """The principal of a token; Unauthorized if it is not known."""
        try:
            return authenticate(secret, self.stored)
        except Unauthorized:
            return authenticate(secret, self.internal)

    async def create(
        self, name: str, scopes: Iterable[str], tenant: str = "", rules: dict[str, Any] | None = None
    ) -> str:
        """Create a token. Its text is returned once; only its digest is stored."""
        token, digest = new_secret(name)
        entry = TokenPut(name, digest, check_rights(name, scopes, rules or {}), tenant, rules or {})

        def decide(offset: int) -> tuple[list[Change], object]:
            if self._pending.newest(name) is not None:
                raise Conflict(f"Expected a new name, but there is a token {name!r}")
            self._pending.note(name, offset, entry)
            return [entry], token

        made = cast("str", await self._runtime.decide(decide))
        self._hub.end_of_owner(ANYBODY.name, "token-changed")  # from now on every caller needs a token
        return made

    async def change(self, name: str, scopes: Iterable[str], tenant: str, rules: dict[str, Any]) -> None:
        """Give a token other rights. If its rules change, its filters are built again; its streams are closed."""
        chosen = check_rights(name, scopes, rules)

        def decide(offset: int) -> tuple[list[Change], object]:
            held = self._held(name)
            moved = [
                (one, self._registry.rewritten(one, rules, tenant))
                for one in self._registry.owned(name)
                if held.rules != rules or (held.tenant != tenant and one.on != "events")
            ]
            changed = TokenPut(name, held.digest, chosen, tenant, rules)
            self._pending.note(name, offset, changed)
            changes: list[Change] = [changed]
            for subscription, put in moved:
                changes.append(self._moved(offset + len(changes), subscription, put))
            return changes, None

        await self._runtime.decide(decide)
        self._hub.end_of_owner(name, "token-changed")

    def _moved(self, number: int, held: StoredSubscription, put: SubscriptionPut | None) -> Change:
        """A subscription's next version, under other rules or in another tenant; its end if there is none for it."""
        if put is not None:
            try:
                self._registry.readmit(number, held, put)
                return put
            except BrokerError:  # the rules do not fit its regions, or the tenant has no such space
                pass
        self._registry.end(number, held)
        return SubscriptionEnd(held.id, "token-changed")

    async def revoke(self, name: str) -> None:
        """End a token, its subscriptions and its streams."""

        def decide(offset: int) -> tuple[list[Change], object]:
            self._held(name)
            self._pending.note(name, offset, None)
            owned = self._registry.owned(name)
            for subscription in owned:
                self._registry.end(offset, subscription)
            return [TokenEnd(name), *(SubscriptionEnd(one.id, "token-revoked") for one in owned)], None

        await self._runtime.decide(decide)
        self._hub.end_of_owner(name, "token-revoked")

    def owner(self, name: str) -> Principal:
        """The owner of a subscription, for an admin who changes it."""
        token = self.stored.get(name)
        return principal_of_token(token) if token is not None else Principal(name, frozenset())

    def check_current(self, principal: Principal) -> None:
        """Refuse a caller whose token was revoked or changed since its request began."""
        token = self.stored.get(principal.name)
        if principal != (ANYBODY if token is None and not self.stored else token and principal_of_token(token)):
            raise Unauthorized("Expected a token that is known here, but it was revoked or changed")

    def check_rules(self, owner: str, rules: Rules) -> None:
        """Refuse what was prepared under rules that no longer hold. Only in the sequencer."""
        token = self._pending.newest(owner)
        if token is None and owner != ANYBODY.name:
            raise Unauthorized("Expected a token that is known here, but it was revoked")
        if dict(rules) != (token.rules if token is not None else {}):
            raise Conflict("Expected the rules of the token to stay, but they have just changed: try again")

    def _held(self, name: str) -> TokenPut:
        held = self._pending.newest(name)
        if held is None:
            raise NotFound(f"Expected the name of a token, but {name[:80]!r} is none")
        return held

    def _stored_put(self, name: str) -> TokenPut | None:
        """A token as the store has it."""
        token = self.stored.get(name)
        if token is None:
            return None
        return TokenPut(name, token.digest, token.scopes.split(), token.tenant, msgspec.json.decode(token.rules))
