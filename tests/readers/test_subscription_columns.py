"""Files of subscriptions in columns and into an index: the quick reader agrees with the exact one, places are kept."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from tests.readers.test_match_files import loaded, written
from whimbrel.readers.errors import InputError, InputPlace
from whimbrel.readers.json_lines import read_line
from whimbrel.readers.subscription_columns import SubscriptionColumns, read_columns
from whimbrel.readers.subscription_rows import _decoded, _decoded_lines, _row, read_subscriptions


@pytest.mark.parametrize("last", [{"id": 4, "filter": "a = 4"}, {"id": 1, "filter": "a = 4"}])
def test_good_subscriptions_are_added_whatever_stands_beside_them(tmp_path: Path, last: dict[str, object]) -> None:
    bad = [{"id": 2, "filter": "a ="}, {"id": 3}]
    index, refused = loaded(written(tmp_path, "s.jsonl", {"id": 1, "filter": "a = 1"}, *bad, last))
    again = last["id"] == 1  # an id that comes twice is refused by itself
    assert refused == ["MissingField", "FilterSyntaxError", *(["DuplicateId"] if again else [])]
    assert list(index) == ([1] if again else [1, 4])


lines_of_subscriptions = st.sampled_from(
    [
        b'{"id": 1, "filter": "a = 1"}',
        b'{"filter":"a = 1","id":"x","dialect":"sql"}',
        b'{"id": 1, "id": 2, "filter": "a = 1"}',
        b'{"id": 1, "\\u0069d": 2, "filter": "a = 1"}',
        b'{"id": 1.0, "filter": "a"}',
        b'{"id": true, "filter": "a"}',
        b'{"id": 9223372036854775808, "filter": "a"}',
        b'{"id": 1, "filter": {"a": [1]}, "dialect": "json"}',
        b'{"id": 1, "filter": null}',
        b'{"id": 1, "filter": "\\"id\\" = 1"}',
        b'{"id": "id", "filter": "filter"}',
        b'{"id": 1, "filter": "a", "owner": {"id": 7}}',
        b'{"id": 1, "filter": "a", "dialect": null}',
        b'{"id": 1, "filter": "caf\xe9"}',
        b'{"id": "\\ud800", "filter": "a"}',
        b"[]",
        b"{}",
    ]
)


@given(lines_of_subscriptions, st.integers(0, 60), st.binary(max_size=2), st.integers(0, 2))
def test_a_subscription_is_decoded_quickly_only_where_the_exact_reader_agrees(
    line: bytes, at: int, inserted: bytes, removed: int
) -> None:
    text = line[:at] + inserted + line[at + removed :] if inserted or removed else line
    quick = _decoded(text)
    if quick is not None and b"\n" not in text:
        place = InputPlace("s", 2)
        item = read_line(text, place, False)
        assert isinstance(item, dict) and _row(place, item) == quick
    assert quick is not None or line != b'{"id": 1, "filter": "a = 1"}' or text != line


PLAIN = [b'{"id": 1, "filter": "a = 1"}', b'{"filter":"x","id":-7}', b'{"id": "b", "filter": "}"} ']


@given(
    st.lists(st.sampled_from(PLAIN) | lines_of_subscriptions, min_size=1, max_size=4),
    st.sampled_from([b"\n", b"\n", b"\n", b" ", b"", b"\r\n", b"\n\n"]),
    st.integers(0, 120),
    st.binary(max_size=2) | st.sampled_from([b"\n", b"}\n{"]),
    st.integers(0, 2),
)
def test_lines_are_decoded_at_once_only_where_the_exact_reader_agrees_on_each(
    lines: list[bytes], between: bytes, at: int, inserted: bytes, removed: int
) -> None:
    content = between.join(lines) + b"\n"
    content = content[:at] + inserted + content[at + removed :]
    quick = _decoded_lines(content)
    if quick is not None:
        place = InputPlace("s", 2)
        each = content.removesuffix(b"\n").split(b"\n")
        items = [read_line(line, place, False) for line in each]
        assert [_row(place, item) for item in items if isinstance(item, dict)] == quick and len(quick) == len(each)


def test_plain_lines_are_decoded_at_once() -> None:
    for end in (b"", b"\n"):
        rows = _decoded_lines(PLAIN[0] + b"\n" + PLAIN[1] + end)
        assert rows is not None and [row.id for row in rows] == [1, -7]
    assert _decoded_lines(b'{"id": 9223372036854775808, "filter": "a"}') is None


def test_a_subscription_knows_its_place_whatever_stands_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whimbrel.readers.json_lines._PIECE", 100)  # several pieces, quick ones and exact ones
    plain = [f'{{"id": {number}, "filter": "a = {number}"}}' for number in range(20)]
    lines = [*plain[:8], "", *plain[8:12], '{"id": 99}', *plain[12:15], "{", *plain[15:]]
    file = tmp_path / "s.jsonl"
    file.write_text("\n".join(lines))
    refused: list[InputError] = []
    columns = read_columns(str(file), None, refused.append, lambda count: None)
    assert columns.ids == list(range(20)) and [error.place.line for error in refused] == [14, 18]
    for number, line in enumerate(plain):
        place = columns.place(number)
        assert lines[(place.line or 0) - 1] == line
    items = [place for place, item in read_subscriptions(str(file)) if not isinstance(item, InputError)]
    assert items == [columns.place(number) for number in range(20)]


def test_rows_of_parquet_know_their_places(tmp_path: Path) -> None:
    file = str(tmp_path / "s.parquet")
    parquet.write_table(pa.table({"id": ["x", "y", "z"], "filter": ["a = 1", "a = 2", "a ="]}), file)
    columns = read_columns(file, None, lambda error: None, lambda count: None)
    assert (columns.ids, columns.filters[1]) == (["x", "y", "z"], "a = 2")
    assert columns.place(2) == InputPlace(file, row=2)
    index, refused = loaded(file)
    assert list(index) == ["x", "y"] and refused == ["FilterSyntaxError"]


def test_ids_of_two_kinds_and_lone_surrogates_are_refused_one_by_one(tmp_path: Path) -> None:
    items = [{"id": 1, "filter": "a = 1"}, {"id": "x", "filter": "a = 2"}, {"id": 3, "filter": "a = '\ud800'"}]
    index, refused = loaded(written(tmp_path, "s.jsonl", *items))
    assert list(index) == [1] and sorted(refused) == ["FilterSyntaxError", "IdKindError"]


def test_empty_columns_have_no_texts() -> None:
    assert list(SubscriptionColumns().sql_texts()) == [] and len(SubscriptionColumns()) == 0
