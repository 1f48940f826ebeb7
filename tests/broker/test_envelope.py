"""Events as publishers send them: what binary mode makes of headers, and what is said of bad text."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from whimbrel.broker.requests.envelope import Incoming, PlainEvents, read_events, read_lines
from whimbrel.broker.requests.errors import BadRequest, BrokerError

CONTEXT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}


def read(kind: str, body: bytes, **headers: str) -> Incoming | BrokerError:
    """The one event of a request, or the reason why it is refused."""
    named = {f"ce-{name}": value for name, value in headers.items()}
    (found,) = read_events(kind, named and CONTEXT | named, body, "somebody", PlainEvents())
    return found


def binary(kind: str = "", body: bytes = b"", **headers: str) -> dict[str, Any]:
    """The event that binary mode makes of a body and of headers."""
    found = read(kind, body, **({"id": "1"} | headers))
    assert isinstance(found, Incoming), found
    made: dict[str, Any] = msgspec.json.decode(found.raw)
    return made


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("Euro%20%E2%82%AC%25", "Euro €%"),
        ('"a \\"b\\" \\\\ c"', 'a "b" \\ c'),
        ('"50%25"', "50%"),
        ('"', '"'),
        ("100%", "100%"),
        ("MÃ¼nchen", "München"),  # bytes of UTF-8, which HTTP reads as Latin-1
    ],
)
def test_headers_of_binary_mode_are_unquoted_and_decoded(header: str, text: str) -> None:
    assert binary(subject=header)["subject"] == text


@pytest.mark.parametrize("header", ["%FF", "%C3%28", "%ED%A0%80", "caf\xe9"])
def test_a_header_that_is_not_utf_8_is_refused(header: str) -> None:
    """With a replacement for its bad bytes it would be the same id as another, and so no new event."""
    found = read("", b"", id=header)
    assert isinstance(found, BrokerError) and found.code == "invalid-event"
    assert "Expected UTF-8 in the header ce-id" in str(found)


def test_the_content_type_of_binary_mode_keeps_its_parameters() -> None:
    made = binary("text/plain; charset=ISO-8859-1", "café".encode("latin-1"))
    assert made["datacontenttype"] == "text/plain; charset=ISO-8859-1" and made["data_base64"] == "Y2Fm6Q=="
    assert "data" not in binary("text/plain; charset=utf-16", "café!".encode("utf-16-le"))
    assert binary('text/plain; charset="UTF-8"', "café".encode())["data"] == "café"
    assert binary("application/json; charset=utf-8", b"1")["data"] == 1


@pytest.mark.parametrize(
    ("text", "found", "byte"),
    [
        (b'{"a": "x\\ud800"}', "\\ud800", 8),
        (b'{"a": "\\\\ud800 \\uDC00"}', "\\uDC00", 15),
        (b'{"a": "\\ud83d\\ude00\\ud800\\u0041"}', "\\ud800", 19),
    ],
)
def test_a_lone_surrogate_is_named_with_its_place(text: bytes, found: str, byte: int) -> None:
    sentence = f"Expected text without lone surrogates, but got {found} at byte {byte}"
    assert sentence in str(read("application/json", text))
    assert sentence in str(read_lines([text], "somebody", PlainEvents())[0])
    with pytest.raises(BadRequest, match=re.escape(f"but got {found} at byte {byte + 1}")):
        read_events("application/cloudevents-batch+json", {}, b"[" + text + b"]", "somebody", PlainEvents())
    head = b'{"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": '
    structured = read("application/cloudevents+json", head + text + b"}")
    assert f"but got {found} at byte {byte + len(head)}" in str(structured)
