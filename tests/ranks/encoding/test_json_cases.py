"""JSON as its standard says: what every reader must take, what it must refuse, and what it may decide itself.

Each case is read in every form in which a text can come, and all of them must agree with each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from whimbrel import Index
from whimbrel.model.errors import RowError, WhimbrelError
from whimbrel.readers.errors import InputError
from whimbrel.readers.events import read_event
from whimbrel.readers.match_files import PairBlock, match_files

ACCEPT: dict[str, bytes] = {
    "empty object": b"{}", "blanks between all signs": b' \t\r{ \t"a" \r: \t1 , "b":2 \r} ',
    "no blanks": b'{"a":1,"b":[2]}', "zero": b'{"a":0}', "minus zero": b'{"a":-0}',
    "minus zero with a fraction": b'{"a":-0.0}', "negative": b'{"a":-12}', "fraction": b'{"a":12.25}',
    "small e": b'{"a":1e2}', "large e": b'{"a":1E2}', "e plus": b'{"a":1e+2}', "e minus": b'{"a":1.5E-2}',
    "zero to a power": b'{"a":0e9}', "leading zeros of an exponent": b'{"a":1e002}',
    "a fraction of many digits": b'{"a":0.1000000000000000055511151231257827}',
    "the largest int64": b'{"a":9223372036854775807}', "the smallest int64": b'{"a":-9223372036854775808}',
    "beyond int64": b'{"a":9223372036854775808}', "beyond uint64": b'{"a":18446744073709551616}',
    "smallest denormal": b'{"a":4.9e-324}', "true": b'{"a":true}', "false": b'{"a":false}', "null": b'{"a":null}',
    "empty string": b'{"a":""}', "empty key": b'{"":1}', "empty array": b'{"a":[]}',
    "empty object inside": b'{"a":{}}', "mixed array": b'{"a":[1,"x",null,true,[],{}]}',
    "blanks in an array": b'{"a":[ 1 ,\t2 ]}', "nested arrays": b'{"a":[[[[1]]]]}',
    "nested objects": b'{"a":{"b":{"c":1}}}', "simple escapes": b'{"a":"\\"\\\\\\/\\b\\f\\n\\r\\t"}',
    "escaped control": b'{"a":"\\u0000\\u001f"}', "delete sign": b'{"a":"\x7f"}',
    "hex of both cases": b'{"a":"\\u00e9\\u00E9\\uABCD\\uabcd"}', "surrogate pair": b'{"a":"\\ud834\\udd1e"}',
    "pair in capitals": b'{"a":"\\uD834\\uDD1E"}', "last code point": b'{"a":"\\udbff\\udfff"}',
    "escaped noncharacter": b'{"a":"\\uffff"}', "an escape that looks like one": b'{"a":"\\\\u0041"}',
    "escaped quote at the end": b'{"a":"x\\""}', "backslash at the end": b'{"a":"x\\\\"}',
    "UTF-8 of two bytes": '{"a":"\u00e9"}'.encode(), "UTF-8 of three": '{"a":"\u20ac"}'.encode(),
    "UTF-8 of four": '{"a":"\U0001d11e"}'.encode(), "noncharacter": '{"a":"\uffff"}'.encode(),
    "line separator": '{"a":"\u2028\u2029"}'.encode(), "byte order mark in a string": '{"a":"\ufeff"}'.encode(),
    "UTF-8 in a key": '{"\u00fc":1}'.encode(), "escaped key": b'{"\\u0062":1}',
    "keys that differ in case": b'{"a":1,"A":2}', "a key with signs": b'{"{}[],:":1}',
    "a string with signs": b'{"a":"{}[],:"}', "a string with a comment": b'{"a":"/* x */ // y"}',
    "last blank": b'{"a":1} ', "carriage return at the end": b'{"a":1}\r',
    "a long string": b'{"a":"' + b"x" * 5_000 + b'"}', "a long key": b'{"' + b"k" * 5_000 + b'":1}',
    "many members": b'{"a":[' + b"1," * 999 + b"1]}",
}  # fmt: skip

REFUSE: dict[str, bytes] = {
    "nothing after a colon": b'{"a":}', "no colon": b'{"a" 1}', "two colons": b'{"a"::1}',
    "comma for a colon": b'{"a",1}', "no value and no colon": b'{"a"}', "comma at the end": b'{"a":1,}',
    "two commas": b'{"a":1,,"b":2}', "comma at the start": b'{,"a":1}', "comma alone": b"{,}",
    "no comma": b'{"a":1 "b":2}', "no comma in an array": b'{"a":[1 2]}', "array comma at the end": b'{"a":[1,]}',
    "array comma at the start": b'{"a":[,1]}', "array of a comma": b'{"a":[,]}',
    "array with two commas": b'{"a":[1,,2]}', "colon in an array": b'{"a":["b":1]}', "open object": b'{"a":1',
    "open array": b'{"a":[1', "open string": b'{"a":"x', "open key": b'{"a', "object alone": b"{",
    "closed twice": b'{"a":1}}', "closed by the other sign": b'{"a":[1}', "object closed as an array": b'{"a":1]',
    "array closed as an object": b'{"a":{"b":1]}', "something after the end": b'{"a":1}x',
    "two objects": b'{"a":1}{"b":2}', "comma after the end": b'{"a":1},', "plus": b'{"a":+1}',
    "two signs": b'{"a":--1}', "sign alone": b'{"a":-}', "sign and letter": b'{"a":-x}',
    "blank after the sign": b'{"a":- 1}', "leading zero": b'{"a":012}', "leading zero of a negative": b'{"a":-012}',
    "two zeros": b'{"a":00}', "zero and fraction with leading zero": b'{"a":00.5}', "point first": b'{"a":.5}',
    "point last": b'{"a":1.}', "point after a sign": b'{"a":-.5}', "two points": b'{"a":1.2.3}',
    "point and e": b'{"a":1.e2}', "e alone": b'{"a":e2}', "e without digits": b'{"a":1e}',
    "e plus without digits": b'{"a":1e+}', "e minus without digits": b'{"a":1E-}', "two e": b'{"a":1e2e3}',
    "e with a fraction": b'{"a":1e2.5}', "e with two signs": b'{"a":1e+-2}', "hexadecimal": b'{"a":0x1F}',
    "underscore": b'{"a":1_000}', "letter after a number": b'{"a":12x}', "blank within a number": b'{"a":1 2}',
    "digits that are not ASCII": '{"a":\uff11}'.encode(), "NaN": b'{"a":NaN}', "minus NaN": b'{"a":-NaN}',
    "Infinity": b'{"a":Infinity}', "minus Infinity": b'{"a":-Infinity}', "inf": b'{"a":inf}', "True": b'{"a":True}',
    "TRUE": b'{"a":TRUE}', "None": b'{"a":None}', "tru": b'{"a":tru}', "truex": b'{"a":truex}', "nul": b'{"a":nul}',
    "fals": b'{"a":fals}', "null with a zero byte": b'{"a":null\0}', "word": b'{"a":x}',
    "undefined": b'{"a":undefined}', "single quotes": b"{'a':1}", "single quotes of a value": b"{\"a\":'x'}",
    "key without quotes": b"{a:1}", "number as a key": b"{1:1}", "null as a key": b"{null:1}",
    "array as a key": b"{[]:1}", "unknown escape": b'{"a":"\\x41"}', "escape of a quote mark": b"{\"a\":\"\\'\"}",
    "escape of a control": b'{"a":"\\\t"}', "capital U": b'{"a":"\\U0041"}', "u with three digits": b'{"a":"\\u041"}',
    "u with a letter": b'{"a":"\\u00g1"}', "u with a sign": b'{"a":"\\u+041"}', "u with blanks": b'{"a":"\\u 041"}',
    "u at the end": b'{"a":"\\u"}', "u cut by the end": b'{"a":"\\u00', "backslash before the end": b'{"a":"\\',
    "open by a backslash": b'{"a":"x\\"}', "half of a pair, cut": b'{"a":"\\ud834\\u"}',
    "tab in a string": b'{"a":"x\ty"}', "zero byte in a string": b'{"a":"\0"}',
    "control in a string": b'{"a":"\x1f"}', "control in a key": b'{"\x01":1}',
    "zero byte after the end": b'{"a":1}\0', "form feed as blank": b'{"a":\f1}',
    "vertical tab as blank": b'{"a":\v1}', "no-break space as blank": '{"a":\u00a01}'.encode(),
    "word joiner as blank": '{"a":\u20601}'.encode(), "byte order mark inside": '{"a":\ufeff1}'.encode(),
    "comment": b'{"a":1/* x */}', "comment to the end": b'{"a":1} // x', "hash": b'{"a":1} # x',
    "byte ff": b'{"a":"\xff"}', "byte ff in a key": b'{"\xff":1}', "byte ff outside": b'{"a":1\xff}',
    "continuation alone": b'{"a":"\x80"}', "cut sequence": b'{"a":"\xe2\x82"}', "cut by a quote": b'{"a":"\xe2"}',
    "long form of a slash": b'{"a":"\xc0\xaf"}', "long form of three": b'{"a":"\xe0\x80\xaf"}',
    "long form of four": b'{"a":"\xf0\x80\x80\xaf"}', "surrogate as UTF-8": b'{"a":"\xed\xa0\x80"}',
    "above the last code point": b'{"a":"\xf4\x90\x80\x80"}', "five bytes": b'{"a":"\xf8\x88\x80\x80\x80"}',
    "Latin-1": b'{"a":"caf\xe9"}', "UTF-16": '{"a":1}'.encode("utf-16-le"),
    "UTF-16 with a mark": '{"a":1}'.encode("utf-16"), "half a byte order mark": b'\xef\xbb{"a":1}',
}  # fmt: skip

EITHER: dict[str, bytes] = {
    "a key twice": b'{"a":1,"a":2}', "the same member twice": b'{"a":1,"a":1}',
    "a key twice, once escaped": b'{"a":1,"\\u0061":2}', "a key twice inside": b'{"b":{"a":1,"a":2}}',
    "high half alone": b'{"a":"\\ud834"}', "low half alone": b'{"a":"\\udd1e"}',
    "halves in the wrong order": b'{"a":"\\udd1e\\ud834"}', "high half before a letter": b'{"a":"\\ud834x"}',
    "two high halves": b'{"a":"\\ud834\\ud834"}', "half in a key": b'{"\\ud834":1}',
    "half that nobody asks for": b'{"zz":"\\ud834"}', "huge exponent": b'{"a":1e400}',
    "huge negative": b'{"a":-1e400}', "tiny": b'{"a":1e-400}',
    "an exponent of many digits": b'{"a":1e00000000000000000000000000000001}',
    "huge exponent of zero": b'{"a":0e99999999999}', "an integer of 300 digits": b'{"a":' + b"7" * 300 + b"}",
    "an integer of 5,000 digits": b'{"a":' + b"7" * 5_000 + b"}",
    "a fraction of 5,000 digits": b'{"a":0.' + b"7" * 5_000 + b"}",
    "arrays 60 deep": b'{"a":' + b"[" * 60 + b"]" * 60 + b"}",
    "arrays 500 deep": b'{"a":' + b"[" * 500 + b"]" * 500 + b"}",
    "arrays 100,000 deep": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "100,000 open arrays": b'{"a":' + b"[" * 100_000, "objects 500 deep": b'{"a":' * 500 + b"1" + b"}" * 500,
    "100,000 open objects": b'{"a":' * 100_000,
}  # fmt: skip

OTHER_VALUES = [b"[]", b"[1]", b'"a"', b'""', b"1", b"-0.5", b"null", b"true", b"false", b' "x" ', b"", b" "]
"""What is no object, and so no event."""


@pytest.fixture(scope="module")
def index() -> Index:
    made = Index()
    texts = [
        "a = 1",
        "a = 'x'",
        "a IS NOT MISSING",
        "a > 5",
        "b = 2",
        "a.b.c = 1",
        "a IS NULL",
        "a = TRUE",
        "a LIKE '%x%'",
        "TRUE",
    ]
    made.add_many(enumerate([*texts, "A = 2", "a CONTAINS ALL (1, 'x')"]))
    return made


def outcomes(index: Index, text: bytes, folder: Path) -> dict[str, object]:
    """What each form makes of a text: the subscriptions that it matches, or None if it is refused."""

    def batch(events: Any) -> object:
        errors: list[tuple[int, RowError]] = []
        found = index.match_batch(events, errors=errors)
        assert [row for row, _ in errors] in ([], [0])
        return None if errors else sorted(found["subscription"].to_pylist())

    def alone(event: Any) -> object:
        try:
            return index.match(event)
        except WhimbrelError:
            return None

    found = {"alone": alone(text), "list": batch([text]), "column": batch(pa.array([text], pa.binary()))}
    try:
        decoded = text.decode()
    except UnicodeDecodeError:
        pass
    else:
        found |= {"text alone": alone(decoded), "texts": batch([decoded]), "text column": batch(pa.array([decoded]))}
    if b"\n" not in text and text.strip(b" \r"):
        found["lines"] = batch(text + b"\n")
        file = folder / "one.jsonl"
        file.write_bytes(b'{"first":1}\n' + text)
        blocks = list(match_files(index, [str(file)], None))
        refused = any(isinstance(one, InputError) for one in blocks)
        pairs = [
            pair for one in blocks if isinstance(one, PairBlock) for pair in one.pairs.to_pylist() if pair["event"] == 1
        ]
        found["file"] = None if refused else sorted(pair["subscription"] for pair in pairs)
        try:
            found["explained"] = sorted(index.match(read_event(str(file), 1, None, ())))
        except WhimbrelError:
            found["explained"] = None
    return found


def agreed(index: Index, text: bytes, folder: Path) -> object:
    found = outcomes(index, text, folder)
    assert all(one == found["alone"] for one in found.values()), found
    return found["alone"]


def test_what_must_be_accepted(index: Index, tmp_path: Path) -> None:
    assert [name for name, text in ACCEPT.items() if agreed(index, text, tmp_path) is None] == []


def test_what_must_be_refused(index: Index, tmp_path: Path) -> None:
    assert [name for name, text in REFUSE.items() if agreed(index, text, tmp_path) is not None] == []
    assert [text for text in OTHER_VALUES if agreed(index, text, tmp_path) is not None] == []


def test_what_may_be_either_is_the_same_in_every_form(index: Index, tmp_path: Path) -> None:
    accepted = {name for name, text in EITHER.items() if agreed(index, text, tmp_path) is not None}
    assert accepted == {
        "huge exponent", "huge negative", "tiny", "an exponent of many digits", "huge exponent of zero",
        "an integer of 300 digits", "a fraction of 5,000 digits", "arrays 60 deep",
    }  # fmt: skip
