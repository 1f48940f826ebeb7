"""Events as publishers send them: what binary mode makes of headers, and what is said of bad text."""

from __future__ import annotations

import re
import tracemalloc
from typing import Any

import msgspec
import pytest

from whimbrel.broker.publications.update_requests import UpdateKind, check_key, read_update
from whimbrel.broker.requests.envelope import BATCH_EVENTS, LONG_BODY, Incoming, PlainEvents, read_events, read_lines
from whimbrel.broker.requests.errors import SEARCHED_BYTES, BadRequest, BrokerError, TooLarge
from whimbrel.broker.requests.subscriptions import ID

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


@pytest.mark.parametrize("number", ["1e999", "-1e400", "9" * 400 + ".5"])
def test_a_number_that_no_float_holds_is_refused_in_every_form(number: str) -> None:
    data = f'{{"a": {number}}}'.encode()
    whole = b'{"specversion": "1.0", "id": "1", "source": "s", "type": "t", "data": ' + data + b"}"
    found = [
        read("application/cloudevents+json", whole),
        read("application/cloudevents-batch+json", b"[" + whole + b"]"),
        read("application/json", data),
        read("application/json", data, id="1"),
        *read_lines([data, whole], "somebody", PlainEvents()),
    ]
    assert all(isinstance(one, BrokerError) and "Number out of range" in str(one) for one in found), found
    with pytest.raises(BrokerError, match="Number out of range"):
        read_update("key", UpdateKind.PUT, data, None)


@pytest.mark.parametrize("key", ["", ".", "..", "a/b", "a\n", "k" * 257])
def test_a_key_that_no_path_can_have_is_refused(key: str) -> None:
    with pytest.raises(BrokerError, match="Expected a key of 1 to 256 bytes"):
        check_key(key)
    assert check_key("...") == "..." and not ID.fullmatch(key) and ID.fullmatch("...")


def test_only_the_beginning_of_a_large_text_is_searched_for_what_is_wrong() -> None:
    for filling, is_named in ((b"a" * 100, True), (b"a" * SEARCHED_BYTES, False)):
        found = str(read("application/json", b'{"a": "' + filling + b'\\ud800"}'))
        assert found.startswith("Expected JSON") and ("surrogates" in found) is is_named


BATCH = "application/cloudevents-batch+json"


@pytest.mark.parametrize(
    "item", [b"1", b'{"specversion":"1.0","id":"1","source":"s","type":"t","data":"%b"}' % (b"x" * 60)]
)
def test_a_batch_of_too_many_events_is_refused_and_one_of_as_many_as_may_come_is_not(item: bytes) -> None:
    for count, refused in ((BATCH_EVENTS, False), (BATCH_EVENTS + 1, True)):
        body = b"[" + b",".join([item] * count) + b"]"
        assert (len(body) > LONG_BODY) is (item != b"1")
        if refused:
            with pytest.raises(TooLarge, match="at most 10,000 events"):
                read_events(BATCH, {}, body, "somebody", PlainEvents())
        else:
            assert len(read_events(BATCH, {}, body, "somebody", PlainEvents())) == count
    with pytest.raises(BadRequest, match="array"):
        read_events(BATCH, {}, b'{"a": [' + b",".join([item] * BATCH_EVENTS) + b"]}", "somebody", PlainEvents())


def test_a_batch_of_very_many_items_takes_little_memory() -> None:
    body = b"[" + b"1," * (2 << 20) + b"1]"
    with pytest.raises(TooLarge):
        read_events(BATCH, {}, b"[" + b"1," * LONG_BODY + b"1]", "somebody", PlainEvents())
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            read_events(BATCH, {}, body, "somebody", PlainEvents())
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body)
    finally:
        tracemalloc.stop()
