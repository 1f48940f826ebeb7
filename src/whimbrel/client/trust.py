"""Whom a client trusts over https: a private authority, or the authorities that the system trusts."""

from __future__ import annotations

import ssl
from pathlib import Path

from whimbrel.client.errors import BadAuthority


def trusted(url: str, tls: ssl.SSLContext | None, ca: str | Path | None) -> ssl.SSLContext | bool:
    """What httpx takes: a context, or True for the authorities that the system trusts.

    False for a URL of http: nothing is encrypted, and to load the system's certificates would take 20 ms.
    """
    if ca is None:
        return not url.lower().startswith("http:") if tls is None else tls
    if tls is not None:
        raise ValueError("Expected either tls or ca, but got both")
    return authority_context(ca)


def authority_context(ca: str | Path) -> ssl.SSLContext:
    """A context that trusts the certificates of a file and no others."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:  # that there is no such file, or nothing in it that is a certificate
        raise BadAuthority(str(ca), str(error)) from None
