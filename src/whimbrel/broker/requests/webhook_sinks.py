"""What a subscription says about its sink: the URL, the settings of the protocol HTTP, credentials, secrets, digests.

Credentials and secrets are written, never read: they are taken out of a request before it is stored or shown.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from whimbrel.broker.requests.errors import Unprocessable

HTTP = "HTTP"
"""The protocol of subscriptions that are delivered to a sink."""
SECRET_PREFIX = "whsec_"
SECRET_BYTES = (24, 64)
"""Bytes of a signing secret, as Standard Webhooks say."""
HEADERS_BYTES = 8 << 10
"""The names and values of the headers that a subscription adds, at most."""
URL_LENGTH = 2_048
LEAST_SECONDS, MOST_SECONDS = 1, 7 * 86_400
"""How often a digest may come."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_HOST = re.compile(r"[a-z0-9_.-]{1,253}")
_EVERY = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_RESERVED = frozenset(
    [
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
    ]
)


class DigestRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One message with all that matched since the last one, `every` 30s, 5m, 1h or 1d; of at most `max` events."""

    every: str
    max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1_000

    @property
    def seconds(self) -> int:
        """The length of a window, in seconds."""
        found = _EVERY.fullmatch(self.every)
        return int(found[1]) * _UNITS[found[2]] if found else 0


class SinkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `protocolsettings` of the protocol HTTP.

    `batch` is how many events one request may have, `rate` how many requests a minute are asked for. An admin may say
    that `consent` is waived. `secret` signs, and is never shown.
    """

    headers: Annotated[dict[str, str], msgspec.Meta(max_length=50)] = {}
    batch: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None
    rate: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] | None = None
    consent: Literal["asked", "waived"] = "asked"
    secret: str | None = None


class PlainCredential(msgspec.Struct, frozen=True, tag_field="credentialtype", tag="PLAIN", forbid_unknown_fields=True):
    """A name and a password, sent as Basic authentication."""

    identifier: Annotated[str, msgspec.Meta(max_length=1_024, pattern="^[^:\\x00-\\x1f]*$")]
    secret: Annotated[str, msgspec.Meta(max_length=4_096)]

    @property
    def authorization(self) -> str:
        """The value of the Authorization header."""
        return "Basic " + base64.b64encode(f"{self.identifier}:{self.secret}".encode()).decode()


class AccessTokenCredential(
    msgspec.Struct, frozen=True, tag_field="credentialtype", tag="ACCESSTOKEN", forbid_unknown_fields=True
):
    """A token, sent as Bearer authentication."""

    accesstoken: Annotated[str, msgspec.Meta(max_length=8_192, pattern="^[\\x21-\\x7e]+$")]
    accesstokenexpiresutc: str | None = None
    accesstokentype: Literal["bearer", "Bearer"] = "bearer"

    @property
    def authorization(self) -> str:
        """The value of the Authorization header."""
        return f"Bearer {self.accesstoken}"


Credential: TypeAlias = PlainCredential | AccessTokenCredential


class SinkUrl(NamedTuple):
    """A URL in parts. `target` is what a request names: path and query."""

    is_tls: bool
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[bool, str, int]:
        """Scheme, host and port: who gets the requests."""
        return self[:3]


def read_url(text: str) -> SinkUrl:
    """The parts of a sink's URL; Unprocessable unless it is plain http or https without credentials."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _refused(f"a URL, but: {error}", "$.sink") from None
    if len(text) > URL_LENGTH or not re.fullmatch(r"[\x21-\x7e]+", text) or "\\" in text:
        raise _refused(f"a URL of at most {URL_LENGTH:,} printable characters of ASCII", "$.sink")
    if parts.scheme not in ("http", "https"):
        raise _refused(f"a URL of http or https, but got {parts.scheme[:40]!r}", "$.sink")
    if "@" in parts.netloc:
        raise _refused("a URL without credentials: they belong into sinkcredential", "$.sink")
    if parts.fragment or text.endswith("#"):
        raise _refused("a URL without a fragment", "$.sink")
    host = (parts.hostname or "").rstrip(".")
    if not (_HOST.fullmatch(host) or re.fullmatch(r"[0-9a-f:.]{2,45}", host)):
        raise _refused("a URL with the name or the address of a host", "$.sink")
    is_tls = parts.scheme == "https"
    port = port if port is not None else 443 if is_tls else 80
    if port not in (80, 443) and port < 1_024:
        raise _refused(f"port 80, 443, or one from 1024 on, but got {port}", "$.sink")
    return SinkUrl(is_tls, host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))


def read_sink(sink: str | None, settings: dict[str, Any] | None, credential: dict[str, Any] | None) -> SinkSettings:
    """Check the sink of a subscription with the protocol HTTP, and return its settings; or Unprocessable."""
    if sink is None:
        raise _refused("a sink, the URL that events are sent to", "$.sink")
    read_url(sink)
    try:
        asked = msgspec.convert(settings or {}, SinkSettings)
    except msgspec.ValidationError as error:
        raise Unprocessable(f"{error} (in $.protocolsettings)", "invalid-subscription") from None
    _check_headers(asked.headers)
    if asked.secret is not None:
        secret_bytes(asked.secret)
    if credential is not None:
        read_credential(credential)
    return asked


def read_credential(credential: object) -> Credential:
    """A sinkcredential. An error never repeats what it says."""
    try:
        found: Credential = msgspec.convert(credential, Credential)
    except msgspec.ValidationError as error:
        path = str(error).rpartition(" - at ")[2] if " - at " in str(error) else "`$`"
        raise Unprocessable(
            "Expected a sinkcredential with the credentialtype PLAIN, identifier and secret, or with ACCESSTOKEN and"
            f" accesstoken - at {path} of $.sinkcredential",
            "invalid-subscription",
        ) from None
    return found


def _check_headers(headers: dict[str, str]) -> None:
    size = 0
    for name, value in headers.items():
        low = name.lower()
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise _refused("headers of printable ASCII", "$.protocolsettings.headers")
        if low in _RESERVED or low.startswith(("webhook-", "proxy-", "ce-")):
            raise _refused(f"a header that is not the broker's own, but got {name!r}", "$.protocolsettings.headers")
        size += len(name) + len(value)
    if size > HEADERS_BYTES:
        raise _refused(f"headers of at most {HEADERS_BYTES:,} bytes", "$.protocolsettings.headers")


def check_digest(digest: DigestRequest) -> None:
    """Unprocessable unless its windows are of a length that we offer."""
    if not LEAST_SECONDS <= digest.seconds <= MOST_SECONDS:
        raise _refused(f"a time from 1s to 7d, such as 30s, 5m, 1h, but got {digest.every[:40]!r}", "$.digest.every")


def new_signing_secret() -> str:
    """A new secret of 32 random bytes."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def secret_bytes(secret: str) -> bytes:
    """The key in a secret; Unprocessable unless it is one. The error does not repeat it."""
    try:
        if not secret.startswith(SECRET_PREFIX):
            raise ValueError
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (ValueError, binascii.Error):
        key = b""
    low, high = SECRET_BYTES
    if not low <= len(key) <= high:
        raise _refused(f"a secret of the form {SECRET_PREFIX}..., {low} to {high} bytes in base64", "$.secret")
    return key


def _refused(expected: str, path: str) -> Unprocessable:
    return Unprocessable(f"Expected {expected} - at {path}", "invalid-subscription")
