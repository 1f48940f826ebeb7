"""Whatever is wrong with a file: one clear error with the place, status 1, and the rest is not lost."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import PAIRS
from tests.cli.program import Program
from whimbrel.model.limits import EVENT_ATTRIBUTES, EVENT_BYTES, EVENT_DEPTH

GOOD = b'{"price": 100}\n'


def parquet_bytes(rows: int = 1_000) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"price": list(range(rows))}), sink)
    return sink.getvalue()


BAD_EVENTS: list[tuple[bytes, str, dict[str, Any]]] = [
    (b"[1, 2]", "NotAnObject", {}),
    (b"null", "NotAnObject", {}),
    (b'"text"', "NotAnObject", {}),
    (b'{"a": }', "NotJson", {"column": 7}),
    (b'{"a": NaN}', "NotJson", {}),
    (b'{"a": 1} {"b": 2}', "NotJson", {"column": 10}),
    (b'{"a": ' + b"9" * 5_000 + b"}", "LimitExceeded", {}),
    (b'{"a": ' + b"9" * 1_001 + b"}", "LimitExceeded", {"path": "a"}),
    (b'{"a": 1, "a": 2}', "DuplicateKey", {"path": "$"}),
    (b'{"a": {"b": [0, {"c": 1, "d": 2, "c": 3}]}}', "DuplicateKey", {"path": "$.a.b[1]"}),
    (b'{"a": "caf\xe9"}', "WrongEncoding", {"column": 11}),
    (b'{"a": "\\ud800"}', "EventError", {"path": "a"}),
    (b'{"\\ud800": 1}', "EventError", {}),
    (
        b'{"a": ' + b"[" * (EVENT_DEPTH.value + 1) + b"]" * (EVENT_DEPTH.value + 1) + b"}",
        "LimitExceeded",
        {"path": "a"},
    ),
    (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "LimitExceeded", {}),
    (b'{"a": "' + b"x" * EVENT_BYTES.value + b'"}', "LimitExceeded", {}),
    (b'{"a": "' + b"x" * 3 * EVENT_BYTES.value + b'"}', "LimitExceeded", {}),
    (json.dumps({f"a{n}": n for n in range(EVENT_ATTRIBUTES.value + 1)}).encode(), "LimitExceeded", {}),
]


def test_every_bad_event_is_refused_in_its_place_and_no_good_one_is_lost(program: Program) -> None:
    program.write("e.jsonl", GOOD + b"".join(bad + b"\n" + GOOD for bad, _, _ in BAD_EVENTS))
    result = program("match", "-s", "subs.jsonl", "e.jsonl", "--json", "--rejects", "rejects.jsonl", status=1)
    assert result.pairs == [(row, "dear") for row in range(0, 2 * len(BAD_EVENTS) + 1, 2)]
    *errors, summary = result.error_lines
    errors.sort(key=lambda error: error["row"])  # what the reader refuses comes before what the index refuses
    assert [error["error"] for error in errors] == [kind for _, kind, _ in BAD_EVENTS]
    for number, (error, (_, _, expected)) in enumerate(zip(errors, BAD_EVENTS, strict=True)):
        place = {"rejected": "event", "file": "e.jsonl", "line": 2 * number + 2, "row": 2 * number + 1}
        assert error == {**error, **place, **expected}
        assert error["message"].startswith("Expected ")
    assert summary["rejected"] == {"events": len(BAD_EVENTS)}
    assert summary["events"] == len(BAD_EVENTS) + 1
    rejects = program.read_lines("rejects.jsonl")
    assert len(rejects) == len(BAD_EVENTS)
    assert next(line["input"] for line in rejects if line["line"] == 2) == "[1, 2]"


def test_text_for_people_names_file_line_and_column(program: Program) -> None:
    program.write("e.jsonl", GOOD + b'{"a": }\n' + b"[]\n" * 30 + b'{"price": 1')
    result = program("match", "-s", "subs.jsonl", "e.jsonl", status=1)
    lines = result.stderr.splitlines()
    assert lines[0] == "whimbrel: e.jsonl:2:7: Expected JSON, but got: Expecting value"
    assert lines[1] == "whimbrel: e.jsonl:3: Expected a JSON object, but got an array"
    assert len(lines) == 22
    assert "--rejects" in lines[20]
    assert lines[21].endswith("rejected: 32 events")


def test_stop_ends_at_the_first_error_and_keeps_what_was_done(program: Program) -> None:
    program.write("e.jsonl", GOOD * 60_000 + b"bad\n" + GOOD)
    result = program("match", "-s", "subs.jsonl", "e.jsonl", "--on-error", "stop", "--json", "-o", "out", status=1)
    *errors, summary = result.error_lines
    assert [error["line"] for error in errors] == [60_001]
    assert 0 < summary["pairs"] <= 60_000
    assert len(program.read_lines("out")) == summary["pairs"]


BAD_SUBSCRIPTIONS: list[tuple[str, str]] = [
    (json.dumps({"id": "s1", "filter": "price <"}), "FilterSyntaxError"),
    (json.dumps({"id": "s2", "filter": "a = '\x00'" + "x" * (1 << 20)}), "LimitExceeded"),
    (json.dumps({"id": "s3", "filter": "(" * 10_000 + "a = 1" + ")" * 10_000}), "LimitExceeded"),
    (json.dumps({"id": "s4", "filter": " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(20))}), "LimitExceeded"),
    (json.dumps({"id": "s5", "filter": "a = 1", "dialect": "klingon"}), "UnknownDialect"),
    (json.dumps({"id": "toys", "filter": "a = 1"}), "DuplicateId"),
    (json.dumps({"id": 7, "filter": "a = 1"}), "IdKindError"),
    (json.dumps({"id": True, "filter": "a = 1"}), "IdKindError"),
    (json.dumps({"id": 1.5, "filter": "a = 1"}), "IdKindError"),
    (json.dumps({"id": "s6"}), "MissingField"),
    (json.dumps({"filter": "a = 1"}), "MissingField"),
    (json.dumps({"id": "s7", "filter": "a = 1", "dialect": 5}), "MissingField"),
    (json.dumps({"id": "s8", "filter": 5}), "FilterSyntaxError"),
    ('{"id": "s9", "id": "s10", "filter": "a = 1"}', "DuplicateKey"),
    ("[]", "NotAnObject"),
    ('{"id": "s11", "filter": "a = 1"', "FileTruncated"),
]


def test_every_bad_subscription_is_refused_and_the_good_ones_match(program: Program) -> None:
    good = (program.folder / "subs.jsonl").read_text()
    program.write("s.jsonl", good + "\n".join(text for text, _ in BAD_SUBSCRIPTIONS))
    result = program("match", "-s", "s.jsonl", "events.jsonl", "--json", status=1)
    *errors, summary = result.error_lines
    errors.sort(key=lambda error: error["line"])  # what the reader refuses comes before what the index refuses
    assert [(error["line"], error["error"]) for error in errors] == [
        (number, kind) for number, (_, kind) in enumerate(BAD_SUBSCRIPTIONS, 4)
    ]
    assert errors[0]["filter_column"] == 8
    assert summary["rejected"] == {"subscriptions": len(BAD_SUBSCRIPTIONS)}
    assert result.pairs == PAIRS


def test_bad_rows_of_csv_subscriptions(program: Program) -> None:
    rows = [b"id,filter,dialect", b"a,price > 1,", b"b,price", b'c,"price >\n 2",sql', b"d,caf\xe9 = 1,", b",x = 1,"]
    program.write("s.csv", b"\n".join([*rows, b'e,"price > 3,']))
    result = program("match", "-s", "s.csv", "events.jsonl", "--json", status=1)
    assert result.pairs == [(row, id) for row in range(3) for id in "ac"]
    errors = result.error_lines[:-1]
    assert [(error["line"], error["error"]) for error in errors] == [
        (3, "WrongColumns"),
        (6, "WrongEncoding"),
        (7, "MissingField"),
        (8, "FileTruncated"),
    ]


def test_a_huge_cell_of_csv_events_is_refused_alone(program: Program) -> None:
    program.write("e.csv", "price,x\n100,1\n100," + "z" * 3_000_000 + "\n100,2\n")
    result = program("match", "-s", "subs.jsonl", "e.csv", "--json", status=1)
    assert {pair["event"] for pair in result.lines} == {0, 2}
    assert [(error["error"], error["row"]) for error in result.error_lines[:-1]] == [("LimitExceeded", 1)]


def test_bad_rows_of_csv_events_keep_their_row_numbers(program: Program) -> None:
    program.write("e.csv", "price,x\n100,1\n7\n100,2\n1,2,3\n100,3\n")
    result = program("match", "-s", "subs.jsonl", "e.csv", "events.jsonl", "--json", status=1)
    assert result.pairs == [(row, "dear") for row in (0, 2, 4)] + [(row + 5, id) for row, id in PAIRS]
    assert [(error["row"], error["error"]) for error in result.error_lines[:-1]] == [
        (1, "WrongColumns"),
        (3, "WrongColumns"),
    ]


BAD_FILES: list[tuple[str, bytes | None, str]] = [
    ("missing.jsonl", None, "FileMissing"),
    ("empty.jsonl", b"", "FileEmpty"),
    ("empty.csv", b"", "FileEmpty"),
    ("empty.parquet", b"", "FileEmpty"),
    ("blank.jsonl", b"\n \n", "FileEmpty"),
    ("utf16.jsonl", '{"price": 100}\n'.encode("utf-16"), "WrongEncoding"),
    ("utf16-no-mark.csv", "price\n100\n".encode("utf-16-le"), "WrongEncoding"),
    ("latin1.csv", "price,name\n100,café\n".encode("latin-1"), "WrongEncoding"),
    ("twice.csv", b"price,price\n1,2\n", "DuplicateKey"),
    ("quote.csv", b'price,x\n"100,1\n', "FileTruncated"),
    ("cut.parquet", parquet_bytes()[:-30], "FileTruncated"),
    ("start.parquet", parquet_bytes()[:6], "FileTruncated"),
    ("text.parquet", b"price\n100\n", "WrongFormat"),
    ("damaged.parquet", parquet_bytes()[:40] + b"\xff" * 60 + parquet_bytes()[100:], "FileUnreadable"),
    (".", None, "FileUnreadable"),
]


def test_every_bad_file_of_events_is_refused_and_the_others_are_read(program: Program) -> None:
    for name, content, _ in BAD_FILES:
        if content is not None:
            program.write(name, content)
    names = [name for name, _, _ in BAD_FILES]
    result = program("match", "-s", "subs.jsonl", *names, "events.jsonl", "--json", status=1)
    *errors, summary = result.error_lines
    assert [(error["file"], error["error"]) for error in errors] == [(name, kind) for name, _, kind in BAD_FILES]
    assert summary["pairs"] == len(PAIRS)


@pytest.mark.parametrize("name", ["missing.jsonl", "utf16.jsonl", "latin1.csv", "cut.parquet", "columns.csv"])
def test_a_bad_file_of_subscriptions_ends_the_run(program: Program, name: str) -> None:
    contents = {file: content for file, content, _ in BAD_FILES} | {"columns.csv": b"id,text\n1,a = 1\n"}
    content = contents[name]
    if content is not None:
        program.write(name, content)
    result = program("match", "-s", name, "events.jsonl", status=1)
    assert result.stdout == ""
    assert result.stderr.startswith(f"whimbrel: {name}")


def test_a_column_that_no_value_can_come_from_is_refused_row_by_row(program: Program) -> None:
    pq.write_table(pa.table({"price": [b"\x00", b"\x01"]}), program.folder / "e.parquet")
    result = program("match", "-s", "subs.jsonl", "e.parquet", "--json", status=1)
    errors = [line for line in result.error_lines if "error" in line]
    assert [(error["row"], error["path"]) for error in errors] == [(0, "price"), (1, "price")]


def test_standard_input_without_content_is_an_error(program: Program) -> None:
    result = program("match", "-s", "subs.jsonl", "-", status=1)
    assert result.stderr.startswith("whimbrel: <stdin>: Expected some content")


def test_control_characters_do_not_reach_the_terminal(program: Program) -> None:
    program.write_lines("s.jsonl", {"id": "x", "filter": "price < \x1b[2J"})
    result = program("match", "-s", "s.jsonl", "events.jsonl", status=1)
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ('[\n  {"price": 100}\n]\n', "an array over several lines"),
        ('{\n  "price": 100\n}\n', "an object over several lines"),
        ('[{"price": 100}, {"price": 200}]', "each object stands on a line of its own"),
    ],
)
def test_a_file_that_is_one_json_value_gives_one_error_with_a_hint(program: Program, content: str, hint: str) -> None:
    program.write("e.json", content)
    result = program("match", "-s", "subs.jsonl", "e.json", "--json", status=1)
    (error,) = [line for line in result.error_lines if "error" in line]
    assert hint in error["message"]
