"""The compiled JSON reader against the exact one: the same ranks, or the same error, whatever the text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests import strategies as ws
from tests.ranks.reference import Constants, constants, entries, make
from whimbrel import Index
from whimbrel.model.errors import EventError, LimitExceeded, WhimbrelError
from whimbrel.model.event import Event
from whimbrel.model.json_text import JsonError, parse_json
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.ranks.encoding.event_encoder import EventEncoder
from whimbrel.ranks.encoding.json_events import json_lines, json_texts
from whimbrel.ranks.encoding.object_batches import Refused

SOME: dict[str, Constants] = {
    "a": {"numbers": [1, 2, 5], "strings": ["x", "\xe9", 'say "hi"\n', "\U0001f600"]},
    "b": {"numbers": [0.5, 1.25]},
    "d.x": {"numbers": [3], "strings": ["in"]},
    "d.e.x": {"strings": ["deep"]},
    "a rather long name of an attribute": {"numbers": [7]},
    "t": {"times": [0, 86_400 * 10**9]},
    "big": {"numbers": [2**60, 2**60 + 1]},
    "exact": {"numbers": [2**70 + 1, 0.5]},
    "\xfcber": {"numbers": [1]},
    "": {"numbers": [1]},
}


@pytest.fixture(scope="module")
def encoder() -> EventEncoder:
    return make(SOME, ["a"])


def reference(encoder: EventEncoder, text: bytes, timestamps: Sequence[str] = ()) -> object:
    """What comes of reading a text exactly: ranks and coupling, or the error."""
    try:
        encoded = encoder.encode_event(Event(parse_json(text), timestamps))
    except WhimbrelError as error:
        return type(error), str(error)
    return entries(encoded)[0], encoded.coupled.item()


def outcomes(encoder: EventEncoder, texts: Sequence[bytes], timestamps: Sequence[str] = ()) -> list[object]:
    refused: Refused = {}
    encoded = encoder.encode_json(json_texts(texts), timestamps, refused)
    return [
        (type(refused[row]), str(refused[row])) if row in refused else (found, encoded.coupled.item(row))
        for row, found in enumerate(entries(encoded))
    ]


def agree(encoder: EventEncoder, texts: Sequence[bytes], timestamps: Sequence[str] = ()) -> None:
    found = outcomes(encoder, texts, timestamps)
    for text, outcome in zip(texts, found, strict=True):
        assert outcome == reference(encoder, text, timestamps), text


def agree_alone(index: Index, texts: Sequence[bytes]) -> None:
    """A text alone matches what its object matches, or is refused as it is."""

    def matched(event: Any) -> object:
        try:
            return index.match(event)
        except WhimbrelError as error:
            return type(error), str(error)

    for text in texts:
        try:
            expected = matched(parse_json(text))
        except WhimbrelError as error:
            expected = type(error), str(error)
        assert matched(text) == expected, text
        found = sorted(index.match_batch([text], errors=[])["subscription"].to_pylist())
        assert found == (expected if isinstance(expected, list) else [])


def left(encoder: EventEncoder, text: bytes, timestamps: Sequence[str] = ()) -> bool:
    """Whether the kernel leaves a text to Python."""
    reader = encoder.json_reader(frozenset(timestamps))
    return bool(len(reader.take().read(json_texts([text])).left))


GOOD = [
    '{}', ' {\t"a"\r: 1\n} ', '{"a": "x", "b": 0.5}', '{"a": [1, "x", [2, [5]], null, true, false, []]}',
    '{"d": {"x": 3, "e": {"x": "deep"}}, "other": {"x": [1, {"y": 2}]}}', '{"d.x": 3, "d": {"e.x": "deep"}}',
    '{"d": {"e": {"x": "deep", "y": 1}}, "d.x": "in"}', '{"d.e": {"x": ["deep"]}}', '{"d": 3, "a": {"z": 1}}',
    '{"d": [1, 2], "other": [[{}], {"a": 1}, {"a": 2}]}', '{"a": "\\u00e9"}', '{"a": "\u00e9"}',
    '{"a": "say \\"hi\\"\\n"}', '{"a": "\\ud83d\\ude00"}', '{"a": "\U0001f600"}', '{"x": "\\b\\f\\t\\r\\/\\\\"}',
    '{"a": -0}', '{"a": -0.0}', '{"a": 1.0}', '{"b": 5e-1}', '{"b": 50E-2}', '{"b": 0.125e+1}', '{"b": 1e400}',
    '{"b": 0.50000000000000000000000000000000000001}', '{"b": 1e23}', '{"b": 2.2250738585072011e-308}',
    '{"big": 1152921504606846977}', '{"big": 1152921504606846976.0}',
    '{"big": 9223372036854775807, "a": -9223372036854775807}', '{"other": 123456789012345678901234567890}',
    '{"a rather long name of an attribute": 7, "a rather long name of an attributf": 1}', '{"\u00fcber": 1, "": 1}',
    '{"d": [{"x": 3}, {"x": 4}]}',
    '{"d": [{"x": [3, "in"]}, {"e": [{"x": "deep"}, {"x": null}]}, {"x": 4, "e": {"x": 1}}]}',
    '{"d": [{"x": 3, "e.x": 1}, {"e.x": 2, "x": 4}, 5, null], "a": 1}', '{"d": [[{"x": 3}]], "d.e": [{"x": 1}]}',
    '{"d": [{"x": null}], "b": 0.5}', '{"d": {"e": [{"x": 1}, {"x": 2}]}, "a": [1, 2]}',
    '{"\\u0061": 1, "\\n": 1, "k\\/": {"\\u00e9": 1}}', '{"\\u00fcb\\u0065r": 1, "\\ud83d\\ude00": 2}',
    '{"d\\u002ex": 3}',
    '{"a rather long n\\u0061me of an attribute": 7, "a": "\\u0078"}', '{"d": {"\\u0065": {"x": "d\\u0065ep"}}}',
    '{"a": 12345678, "b": 0.123456789012, "x": 1234567.12345678e-00001}',
    '{"a": true, "b": false, "t": null}', '{"t": 5}', '{"k1": 1, "k2": 1, "k3": {"k1": 2}, "k4": [{"k1": 1}]}',
]  # fmt: skip
"""Texts that the kernel reads itself."""

LEFT = [
    '{"b": 123456789012345678}', '{"a": -9223372036854775808}',
    '{"big": 12345678901234567890}', '{"exact": 1}', '{"d": [{"x": 3, "x": 4}]}', '{"d.x": 1, "d": {"x": 2}}',
    '{"d": [{"x": 1}], "d.x": 2}', '{"d.x": 2, "d": [{"x": 1}]}', '{"d": [{"e.x": 1, "e": {"x": 2}}]}',
    '{"d": [[{"x": 3}], [{"x": 4}]]}', '{"d": [{"x": 1}, {"e": [{"x": 1}], "e.x": 2}]}',
    '{"\\u0061": 1, "a": 2}', '{"k": 1, "\\u006b": 2}',
    '{"a rather long unknown key": 1, "a rather long unknown k\\u0065y": 1}',
    '{"\\x": 1}', '{"\\ud800": 1}', '{"a\\u00": 1}', '{"a\\',
    '{"a": 1, "a": 2}', '{"k": 1, "k": 2}', '{"o": {"k": 1, "k": 2}}', '{"o": [{"k": 1, "k": 2}]}',
    '{"a rather long unknown key": 1, "a rather long unknown key": 1}', '{"a": "\\ud800"}', '{"a": "\\udc00\\ud800"}',
    '{"x": "\\ud800\\u0041"}', '{"d": 1, "d": {"x": 2}}', "[1]", '"a"', "1", "null", "", " ", '{"a"}', '{"a":}',
    '{"a": 1,}', '{,}', '{"a": [1,]}', '{"a": [,1]}', '{"a": 01}', '{"a": 1.}', '{"a": .5}', '{"a": +1}', '{"a": -}',
    '{"a": 1e}', '{"a": 1e+}', '{"a": NaN}', '{"a": -Infinity}', '{"a": tru}', '{"a": nulll}', '{"a": falsy}',
    '{"a": "x}', '{"a": "\\x"}', '{"a": "\\u12g4"}', '{"a": "\\u12"}', '{"a": "tab\there"}', "{'a': 1}", '{"a": 1}}',
    '{"a": 1} 2', '{"a": 1} {"a": 2}', '{"a": [1}', '{"a": {"b": 1]', '{a: 1}', '{"a" 1}', '{"a": 1 "b": 2}',
    '\ufeff{"a": 1}', '{"a": 1}\0', '{"a\0": 1}', '{"a": "\0"}', '{"a": 0x1}', '{"a": 1_000}', '{"a": TRUE}', '{1: 2}',
]  # fmt: skip
"""Texts that are left to Python, most because they are wrong."""


@pytest.mark.parametrize("text", GOOD)
def test_reads(encoder: EventEncoder, text: str) -> None:
    agree(encoder, [text.encode(), b'{"a": 1}'])
    assert not left(encoder, text.encode())


@pytest.mark.parametrize("text", LEFT)
def test_leaves_to_python(encoder: EventEncoder, text: str) -> None:
    agree(encoder, [text.encode(), b'{"a": 1}'])
    assert left(encoder, text.encode())


def test_a_text_ends_where_it_ends_whatever_follows(encoder: EventEncoder) -> None:
    """Digits, characters and quotes behind the end of a text are none of it."""
    text = (
        '{"a": 1234567890, "b": 0.25e12, "\xfcber": "\xe9\u20ac\U0001f600", "x": [true, "\\u00e9"], "a.b": 1}'.encode()
    )
    ends = np.arange(len(text) + 1)
    events = type(json_texts([text]))(np.frombuffer(text + text, np.uint8), np.zeros(len(ends), np.int64), ends)
    refused: Refused = {}
    encoded = encoder.encode_json(events, (), refused)
    for row, found in enumerate(entries(encoded)):
        expected = reference(encoder, text[:row])
        assert ((type(refused[row]), str(refused[row])) if row in refused else (found, 0)) == expected


def test_characters_at_every_place_of_a_word(encoder: EventEncoder) -> None:
    characters = ["\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"]
    run = "".join(characters).encode()
    wrong = [b"\xc0\x80", b"\xe0\x9f\xbf", b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xc3", b"\x80"]
    for before in range(9):
        good = [b'{"x": "' + b"-" * before + run + b'", "a": "' + run[1:3] + b'"}']
        agree(encoder, good + [b'{"x": "' + b"-" * before + run + one + run + b'"}' for one in wrong])
        assert not left(encoder, good[0])


def test_a_text_alone_is_read_as_its_object() -> None:
    index = Index(["t"])
    filters = ["a = 1", "a = 'x'", "a = '\xe9'", "b >= 0.5", "d.x = 3", "d.e.x = 'deep'", "t > TIMESTAMP '1970-01-01'"]
    filters += ["a IS NULL", "b IS MISSING", "a LIKE '%y%'", "a CONTAINS ALL (1, 2)", "big = 1152921504606846977"]
    filters += ["a NOT LIKE '%x%'", "d.x = 3 AND d.e.x = 'deep'", "b = 1e400", "b = 1e23", "\xfcber = 1"]
    index.add_many(enumerate(filters))
    more = ['{"a": "say \\"hi\\" why"}', '{"a": ["y", "x"]}', json.dumps({"a": "\n" * 9_000 + "y"})]
    more += [json.dumps({"a": ["y" + str(i) for i in range(2_000)]}), json.dumps({"a": "\xe9" * 40_000 + "y"})]
    more += [json.dumps({"a": [*range(2_000)], "b": [0.1 + i / 3 for i in range(200)]}), '{"t": "1970-01-02"}']
    agree_alone(index, [text.encode() for text in (*more, *GOOD, *LEFT)])
    assert index.match('{"a": "\xe9"}') == index.match({"a": "\xe9"})


def test_every_byte_in_a_string_and_in_a_key(encoder: EventEncoder) -> None:
    one = [bytes([byte]) for byte in range(256)]
    agree(encoder, [b'{"a": "' + byte + b'", "b": 0.5}' for byte in one])
    agree(encoder, [b'{"' + byte + b'": 1, "b": 0.5}' for byte in one])
    agree(encoder, [b'{"a": "\\' + byte + b'"}' for byte in one])
    agree(encoder, [b'{"a": ' + byte + b"1}" for byte in one])


def test_utf_8_of_two_to_four_bytes(encoder: EventEncoder) -> None:
    leads, second = (
        [0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5],
        range(0x70, 0x100, 8),
    )
    ends = [b"", b"\x80", b"\xbf", b"\x80\x80", b"\xbf\xbf", b"\x80\x7f", b"\xc0"]
    agree(
        encoder, [b'{"x": "abc' + bytes([lead, two]) + end + b'"}' for lead in leads for two in second for end in ends]
    )


def test_truncation_at_every_byte(encoder: EventEncoder) -> None:
    text = (
        '{"a": [1, "\u00e9\\u00e9\\ud83d\\ude00"], "d": {"x": -1.5e3, "k": null}, "a rather long name": true}'.encode()
    )
    agree(encoder, [text[:size] for size in range(len(text) + 1)])
    agree(encoder, [text[:at] + text[at + 1 :] for at in range(len(text))])


def test_depth(encoder: EventEncoder) -> None:
    for open_, close in (('{"a":', "}"), ("[", "]")):
        for depth in (1, 62, 63, 64, 65, 66, 2_000):
            agree(encoder, [f'{{"a": {open_ * depth}1{close * depth}}}'.encode()])


def test_limits_of_values_keys_and_bytes(encoder: EventEncoder) -> None:
    many = b'{"a": [' + b"1," * 99_998 + b"1]}"
    assert not left(encoder, many)
    agree(encoder, [many, many.replace(b"]", b",1,1,1]")])
    agree(encoder, [json.dumps(dict.fromkeys(map(str, range(size)), 1)).encode() for size in (6_000, 10_001)])
    padded = b'{"a": 1}'.ljust(EVENT_BYTES.value)
    agree(encoder, [padded, padded + b" "])
    with pytest.raises(LimitExceeded):
        encoder.encode_json(json_texts([json.dumps(dict.fromkeys(map(str, range(10**6)), 1)).encode()]))
    agree(encoder, [b'{"x": ' + b"9" * size + b"}" for size in (19, 20, 300, 301, 1_001, 5_000)])


def test_an_error_has_its_row_line_column_and_byte(encoder: EventEncoder) -> None:
    with pytest.raises(JsonError) as caught:
        encoder.encode_json(json_texts([b"{}", b'{"\xc3\xa9":\n 1,\n ,}']))
    error = caught.value
    assert (error.row, error.place) == (1, (3, 2, 12))
    assert "event 1" in str(error) and "line 3, column 2 (byte 12)" in str(error)
    with pytest.raises(JsonError, match=r"text in UTF-8, but got the byte 0xff at line 1, column 8 \(byte 7\)"):
        encoder.encode_json(json_texts([b'{"a": "\xff"}']))
    with pytest.raises(EventError, match="lone surrogates"):
        encoder.encode_json(json_texts([b'{"a": "\\ud800"}']))


def test_timestamps(encoder: EventEncoder) -> None:
    texts = [
        "1970-01-01", "1970-01-02T00:00:00Z", "1970-01-01T01:00:00+01:00", "1970-01-01t00:00:00.5z", "1969-12-31",
        "+12026-01-01", "9999-12-31", "no", "", "1970-13-01", "1970-01-0\\u0031", "1970-01-01T00:00",
    ]  # fmt: skip
    for names in (["t"], ["t", "unmentioned"], ["unmentioned", "d.e"]):
        agree(encoder, [f'{{"t": "{text}", "unmentioned": "1970-01-01"}}'.encode() for text in texts], names)
        agree(encoder, [f'{{"unmentioned": ["{text}", 1], "d": {{"e": 2}}}}'.encode() for text in texts], names)
    assert not left(encoder, b'{"t": "1970-01-01T01:00:00+01:00"}', ["t"])


scalars = st.one_of(ws.numbers, ws.strings, st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12))
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.sampled_from([*SOME, "d", "e", "x", "k"]), st.text(max_size=9)), inner, max_size=4
        ),
    ),
    max_leaves=12,
)
objects = st.dictionaries(
    st.one_of(st.sampled_from([*SOME, "d", "e", "d.e", "k"]), st.text(max_size=9)), trees, max_size=6
)


@st.composite
def json_of(draw: st.DrawFn, value: Any) -> bytes:
    text = json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        separators=draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:\r")])),
    )
    return text.encode("utf-8", "surrogatepass")


@given(st.data(), st.dictionaries(st.sampled_from(["a", "d", "d.x", "k", "t"]), constants, max_size=4))
def test_generated_objects(data: st.DataObject, named: dict[str, Constants]) -> None:
    drawn = data.draw(st.lists(objects, min_size=1, max_size=4))
    texts = [data.draw(json_of(one)) for one in drawn]
    agree(make(named, data.draw(st.sampled_from([[], list(named)]))), texts, data.draw(st.sampled_from([[], ["t"]])))


@given(st.data())
def test_mutated_texts(encoder: EventEncoder, data: st.DataObject) -> None:
    text = bytearray(data.draw(st.one_of(json_of(data.draw(objects)), st.sampled_from(GOOD).map(str.encode))))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(0, len(text) - 1)))
        text[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.one_of(st.sampled_from([bytes([byte]) for byte in b'{}[]",:\\0123e-.tfnu ']), st.binary(max_size=3))
        )
    agree(encoder, [bytes(text)])


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5), st.integers(1, 25))
@example([5e-324, 1.7976931348623157e308, 9007199254740993.0, 0.1], 17)
def test_floats_are_the_nearest(values: list[float], digits: int) -> None:
    texts = [text for value in values for text in (repr(value), f"{value:.{digits}e}", f"{value:.{digits}f}"[:280])]
    exact = make({"a": {"numbers": sorted({float(text) for text in texts})}})
    agree(exact, [f'{{"a": {text}}}'.encode() for text in texts])


@given(st.lists(st.tuples(st.integers(0, 10**19 - 1), st.integers(-330, 300)), min_size=1, max_size=20), st.booleans())
@example([(9_007_199_254_740_993, 0), (9_007_199_254_740_995, 0), (5, -324), (1, 23), (2**63 + 2**10, 1)], True)
def test_digits_and_powers_of_ten(numbers: list[tuple[int, int]], is_negative: bool) -> None:
    texts = [f"{'-' * is_negative}{digits}e{power}" for digits, power in numbers]
    texts += [f"{'-' * is_negative}0.{'0' * (power % 30)}{digits}" for digits, power in numbers]
    read = make({"b": {"numbers": [0.5]}}).json_reader(frozenset()).take()
    cells = read.read(json_texts([f'{{"b": {text}}}'.encode() for text in texts])).cells
    assert cells.tolist() == [float(text) for text in texts]


def test_patterns_see_texts(encoder: EventEncoder) -> None:
    index = Index()
    for id, text in enumerate(
        ("u LIKE '%.pdf'", "u NOT LIKE '%b%'", "u LIKE '%\xe9%'", "d.v LIKE '%x%' AND u = 3", "u IN CIDR '10.0.0.0/8'")
    ):
        index.add(id, text)
    index.merge()
    encoder = index._subscriptions.segments.compiled().segments[0].encoder
    values = [
        '"a.pdf"',
        '"b"',
        '"\\u00e9.pdf"',
        '["a.pdf", "b"]',
        "3",
        "null",
        "[]",
        '["b", 3]',
        '"10.1.2.3"',
        '["b", "b"]',
    ]
    agree(encoder, [f'{{"u": {value}, "d": {{"v": "x\\n"}}}}'.encode() for value in values])
    assert not left(encoder, b'{"u": ["a.pdf", "\\u00e9"], "d": {"v": "x"}}')


def test_names_with_escapes_and_with_many_dots() -> None:
    for names in (['say "hi"', "tab\t", "back\\slash", "a"], [".".join("abcdefghijklmnopqrstuvw"), "a"]):
        encoder = make({name: {"numbers": [1]} for name in names})
        agree(encoder, [json.dumps({name: 1}).encode() for name in names])
        agree(encoder, [b'{"a": {"b": 1}, "a.b": 2}', b'{"say "hi": 1}', b'{"tab\t": 1}'])


def test_lines_know_their_numbers_and_ends() -> None:
    events = json_lines(b'\n{"a": 1}\n\n \t\n{"a": 2}\r\n{"a": 3}')
    assert events.lines.tolist() == [2, 5, 6]
    assert [events.text(row) for row in range(3)] == [b'{"a": 1}', b'{"a": 2}\r', b'{"a": 3}']
    assert [len(json_lines(text)) for text in (b"", b"\n", b" \n \n", b"x", b"x\n")] == [0, 0, 0, 1, 1]
    assert events.within(0, 10, 9) == 1 and events.within(0, 10, 17) == 2 and events.within(1, 1, 99) == 2


def test_a_text_at_the_end_of_memory_is_not_read_beyond() -> None:
    """Every prefix of a buffer is read as if nothing followed it."""
    encoder = make(SOME)
    text = b'{"a": "abcdefgh", "a rather long name of an attribute": 7}'
    for size in range(len(text), len(text) + 9):
        data = np.frombuffer(text.ljust(size), np.uint8)
        events = json_texts([text])
        again = encoder.encode_json(type(events)(data, events.begins, events.ends))
        assert entries(again) == entries(encoder.encode_json(events))
