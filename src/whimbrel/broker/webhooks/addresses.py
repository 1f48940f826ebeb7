"""Where webhooks may go: names are resolved once, every address is checked, and connections go to what was checked.

An address must be a global unicast address, or lie in a network that the settings allow. Addresses that stand for an
IPv4 address (mapped, NAT64, 6to4, Teredo) are judged by that one too. A name with one bad address is refused as a
whole. Because a connection is made to the checked address and not to the name, an answer of DNS that changes in between
does not matter.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import TypeAlias

from whimbrel.model.errors import WhimbrelError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve: TypeAlias = Callable[[str], Awaitable[list[str]]]
"""The addresses of a name."""

KEPT_SECONDS = 30.0
"""How long the addresses of a name are used before it is resolved again."""
NAMES = 10_000
"""Names whose addresses are kept, at most."""
RESOLVERS = 16
"""Names that are resolved at one time."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class ForbiddenAddress(WhimbrelError):
    """A webhook that leads where it must not."""


class UnknownHost(WhimbrelError):
    """A name that has no address."""


class Addresses:
    """Checks addresses. Used in one event loop."""

    def __init__(self, allowed: Iterable[str] = (), resolve: Resolve | None = None) -> None:
        self._allowed: list[Network] = [ipaddress.ip_network(network) for network in allowed]
        self._resolve = resolve or self._ask_system
        self._known: dict[str, tuple[float, list[str]]] = {}
        self._pool = ThreadPoolExecutor(RESOLVERS, "whimbrel-resolver")

    async def of(self, host: str) -> list[str]:
        """The checked addresses of a name or address; ForbiddenAddress if one of them is not allowed."""
        kept = self._known.get(host)
        if kept is not None and monotonic() < kept[0]:
            return kept[1]
        literal = _literal(host)
        found = [literal] if literal is not None else await self._resolve(host)
        if not found:
            raise UnknownHost(f"Expected a host with an address, but {host!r} has none")
        for address in found:
            if not self.allows(address):
                # The address is not named: what DNS says inside a network is nobody else's business.
                raise ForbiddenAddress(f"Expected a host with global addresses only, but {host!r} has another")
        if len(self._known) >= NAMES:
            self._known.clear()
        self._known[host] = monotonic() + KEPT_SECONDS, found
        return found

    def allows(self, text: str) -> bool:
        """Whether a webhook may go to an address."""
        try:
            address = ipaddress.ip_address(text)
        except ValueError:  # with a scope, such as fe80::1%eth0
            return False
        return all(_is_in(one, self._allowed) or _is_public(one) for one in _meanings(address))

    def close(self) -> None:
        """End the threads. A thread that waits for an answer of DNS ends when the answer comes."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _ask_system(self, host: str) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(
                self._pool, lambda: socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            )
        except (OSError, UnicodeError):
            return []
        return list(dict.fromkeys(str(one[4][0]) for one in found))


def _literal(host: str) -> str | None:
    """The host itself if it is an address. Forms such as 127.1 or 0x7f000001 are none: the system resolves them."""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return None


def _meanings(address: Address) -> list[Address]:
    """The address, and the IPv4 addresses that it stands for."""
    found: list[Address] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return [address.ipv4_mapped]
        if address.sixtofour is not None:
            found.append(address.sixtofour)
        if address.teredo is not None:
            found += address.teredo
        if address in _NAT64:
            found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def _is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)


def _is_public(address: Address) -> bool:
    is_odd = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    return address.is_global and not is_odd
