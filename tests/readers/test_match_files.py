"""Files of events through an index: bad input is reported, good input counts."""

from __future__ import annotations

import json
from io import BufferedReader, BytesIO, RawIOBase, TextIOWrapper
from pathlib import Path
from typing import cast

import pytest

from whimbrel import Filter, Index
from whimbrel.model.limits import EVENT_BYTES
from whimbrel.readers.errors import InputError
from whimbrel.readers.events import FileBatch, parse_events, read_events
from whimbrel.readers.json_lines import line_pieces
from whimbrel.readers.match_files import PairBlock, match_files
from whimbrel.readers.subscription_columns import add_columns, read_columns
from whimbrel.readers.subscription_rows import parse_subscriptions


def written(folder: Path, name: str, *items: object) -> str:
    path = folder / name
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return str(path)


def loaded(file: str) -> tuple[Index, list[str]]:
    index, refused = Index(), list[InputError]()
    columns = read_columns(file, None, refused.append, lambda count: None)
    add_columns(index, columns, refused.append, lambda count: None)
    return index, [error.kind for error in refused]


@pytest.mark.parametrize("name", ["e.jsonl", "-"])
def test_refused_lines_are_reported_and_others_counted(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, _ = loaded(written(tmp_path, "s.jsonl", {"id": 1, "filter": "a = 1"}, {"id": 2, "filter": "TRUE"}))
    lines = [b'{"a": 1}', b"", b'{"a": "\\ud800"}', b'{"a": 1, "a": 1}', b'{"a": \xff}', b"[1]", b'{"a": nan}']
    lines += [b'{"a": 1}', b'{"b": 1}'.ljust(EVENT_BYTES.value + 1), b'{"a": [']
    file, first = tmp_path / "e.jsonl", written(tmp_path, "first.jsonl", {"a": 2}, {"a": 1})
    file.write_bytes(b"\n".join(lines))
    with TextIOWrapper(file.open("rb")) as stream:
        monkeypatch.setattr("sys.stdin", stream)
        found = list(match_files(index, [first, str(file) if name == "e.jsonl" else name], None))
    tables = [one.pairs.to_pydict() for one in found if isinstance(one, PairBlock)]
    pairs = [pair for one in tables for pair in zip(one["event"], one["subscription"], strict=True)]
    assert sorted(pairs) == [(0, 2), (1, 1), (1, 2), (2, 1), (2, 2), (8, 1), (8, 2)]
    assert sum(one.events for one in found if isinstance(one, PairBlock)) == 4
    refused = [(one.place.row, one.place.line, one.kind) for one in found if isinstance(one, InputError)]
    assert sorted(refused) == [
        (3, 3, "EventError"),
        (4, 4, "DuplicateKey"),
        (5, 5, "WrongEncoding"),
        (6, 6, "NotAnObject"),
        (7, 7, "NotJson"),
        (9, 9, "LimitExceeded"),
        (10, 10, "FileTruncated"),
    ]


def test_filters_and_events_are_parsed_one_by_one_with_their_errors(tmp_path: Path) -> None:
    file = written(tmp_path, "s.jsonl", {"id": "x", "filter": "b = 1"}, {"id": "y", "filter": "b <"})
    good, bad = parse_subscriptions(file)
    assert good == ("x", Filter.parse("b = 1")) and isinstance(bad, InputError)
    events = written(tmp_path, "e.jsonl", {"b": 1}, [], {"b": 2})
    found = list(parse_events([events], None, ["b"], []))
    assert [isinstance(one, InputError) for one in found].count(True) == 1 and len(found) == 3


def test_rows_count_through_all_files(tmp_path: Path) -> None:
    first = written(tmp_path, "a.jsonl", {"b": 1}, {"b": 2})
    second = written(tmp_path, "b.jsonl", {"b": 3})
    batches = [batch for batch in read_events([first, second]) if isinstance(batch, FileBatch)]
    assert [list(batch.rows) for batch in batches] == [[0, 1], [2]]
    assert [list(batch.each()) for batch in batches] == [[{"b": 1}, {"b": 2}], [{"b": 3}]]


def test_a_stream_is_cut_behind_line_breaks_wherever_its_chunks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b'\xef\xbb\xbf{"a": 1}', b"", b"x" * 25, b"\xef\xbb\xbfy", b"z" * 9, b"w" * 21, b"last"]
    content = b"\n".join(lines)
    for size in range(1, len(content) + 1):
        monkeypatch.setattr("whimbrel.readers.json_lines._PIECE", size)
        found: list[tuple[int, bytes]] = []
        for piece in line_pieces(BufferedReader(cast("RawIOBase", BytesIO(content))), 20):
            own = [piece.content.ljust(piece.size, piece.content[-1:])] if piece.size else piece.content.split(b"\n")
            found += [(number, line) for number, line in enumerate(own, piece.number) if line]
            assert piece.size in (0, 21, 25)
        assert found == [(number, line) for number, line in enumerate(lines, 1) if line]
