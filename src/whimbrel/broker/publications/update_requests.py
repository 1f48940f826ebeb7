"""Updates of publications as requests ask for them: a new state, a merge patch, or the end."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from whimbrel.broker.requests.errors import (
    BAD_JSON,
    BrokerError,
    Forbidden,
    NotFound,
    PreconditionFailed,
    TooLarge,
    Unprocessable,
    json_problem,
)
from whimbrel.model.errors import WhimbrelError
from whimbrel.model.json_text import parse_json
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.model.token_rules import Rules

KEY_BYTES = 256
"""The key of a publication, at most."""


class UpdateKind(Enum):
    """What an update does: replace the state, change a part of it, or delete the publication."""

    PUT = "put"
    PATCH = "patch"
    DELETE = "delete"


class PublicationUpdate(NamedTuple):
    """One update: the whole state or the patch as JSON. `versions` are those that If-Match names, None for any."""

    key: str
    kind: UpdateKind
    content: bytes = b""
    versions: frozenset[str] | None = None


class Updates(NamedTuple):
    """Updates of one principal that are decided together, of publications in a space or, if that is "", in none."""

    updates: list[PublicationUpdate]
    tenant: str
    rules: Rules
    space: str = ""


class UpdateLine(msgspec.Struct, forbid_unknown_fields=True):
    """A line of POST /publications: a key, and one of `state`, `patch` (RFC 7396) and `delete`."""

    key: str
    state: msgspec.Raw = msgspec.Raw(b"")
    patch: msgspec.Raw = msgspec.Raw(b"")
    delete: bool = False


_line = msgspec.json.Decoder(UpdateLine)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_whole_object = msgspec.json.Decoder(dict[str, Any])
_encode = msgspec.json.Encoder().encode


def check_key(key: str) -> str:
    """The key, if it may be one."""
    is_path = "/" in key or key in (".", "..")
    if not key or len(key.encode()) > KEY_BYTES or is_path or not key.isprintable():
        expected = f"a key of 1 to {KEY_BYTES} bytes, printable, without a slash and other than . and .."
        raise Unprocessable(f"Expected {expected}, but got {key[:40]!r}", "invalid-key")
    return key


def read_update(key: str, kind: UpdateKind, content: bytes, versions: frozenset[str] | None) -> PublicationUpdate:
    """The update of a body, which is a JSON object; a BrokerError says what is wrong."""
    check_key(key)
    if kind is not UpdateKind.DELETE:
        if len(content) > EVENT_BYTES.value:
            raise TooLarge(f"Expected a state of at most {EVENT_BYTES.value:,} bytes, but got {len(content):,}")
        try:
            _whole_object.decode(content)  # refuses numbers that no float holds
            if kind is UpdateKind.PATCH:
                parse_json(content)  # a key that comes twice has no meaning in a patch
        except (*BAD_JSON, WhimbrelError) as error:
            problem = json_problem(content, error)
            raise Unprocessable(f"Expected a JSON object, but got: {problem}", "invalid-publication") from None
    return PublicationUpdate(key, kind, content.strip(), versions)


def read_update_lines(lines: Iterable[bytes]) -> list[PublicationUpdate | BrokerError]:
    """The updates of JSON lines, each or the reason why it is refused."""
    found: list[PublicationUpdate | BrokerError] = []
    for text in lines:
        try:
            if len(text) > EVENT_BYTES.value + 4 * KEY_BYTES:
                raise TooLarge(f"Expected a line of at most {EVENT_BYTES.value:,} bytes")
            line = _line.decode(text)
            state, patch = bytes(line.state), bytes(line.patch)
            if bool(state) + bool(patch) + line.delete != 1:
                raise Unprocessable("Expected one of state, patch and delete", "invalid-publication")
            kind = UpdateKind.PUT if state else UpdateKind.PATCH if patch else UpdateKind.DELETE
            found.append(read_update(line.key, kind, state or patch, None))
        except BrokerError as error:
            found.append(error)
        except BAD_JSON as error:
            found.append(Unprocessable(json_problem(text, error), "invalid-publication"))
    return found


def check_target(update: PublicationUpdate, offset: int | None, allowed: bool) -> None:
    """Refuse an update of what is not there, of what the token's rules do not allow, or of another version.

    `offset` is that of the present state, None if there is none; `allowed` says whether the rules let it be seen.
    """
    if (offset is None or not allowed) and update.kind is not UpdateKind.PUT:
        raise NotFound(f"Expected the key of a publication, but {update.key[:80]!r} is none")
    if offset is not None and not allowed:
        raise Forbidden("Expected a publication that the token's rules allow, but the key has another one")
    if update.versions is not None and str(offset) not in update.versions:
        version = "no publication" if offset is None else f'version "{offset}"'
        found = ", ".join(sorted(update.versions))[:80]
        raise PreconditionFailed(f"Expected the version that If-Match names ({found}), but there is {version}")


def merged(state: bytes, patch: bytes) -> bytes:
    """The state after a JSON merge patch (RFC 7396). Values that the patch does not name keep their text.

    >>> merged(b'{"a": 1.50, "b": {"c": 1, "d": 2}}', b'{"b": {"c": null, "e": {"f": null}}}')
    b'{"a":1.50,"b":{"d":2,"e":{}}}'
    """
    return _encode(_merged(_object.decode(state), _object.decode(patch)))


def _merged(state: dict[str, msgspec.Raw], patch: dict[str, msgspec.Raw]) -> dict[str, object]:
    out: dict[str, object] = dict(state)
    for name, value in patch.items():
        text = bytes(value)
        if text == b"null":
            out.pop(name, None)
        elif text[:1] == b"{":
            held = bytes(state.get(name, b""))
            out[name] = _merged(_object.decode(held) if held[:1] == b"{" else {}, _object.decode(text))
        else:
            out[name] = value
    return out
