"""Files of subscriptions into an index, and batches of events through it: bad input is reported, good input counts."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from whimbrel import Filter, Index
from whimbrel.readers.errors import InputError
from whimbrel.readers.events import FileBatch, parse_events, read_events
from whimbrel.readers.match_files import add_rows, match_events, read_rows
from whimbrel.readers.subscriptions import parse_subscriptions


def written(folder: Path, name: str, *items: object) -> str:
    path = folder / name
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return str(path)


def loaded(file: str) -> tuple[Index, list[str]]:
    index, refused = Index(), list[InputError]()
    rows = read_rows(file, None, refused.append, lambda count: None)
    add_rows(index, rows, refused.append, lambda count: None)
    return index, [error.kind for error in refused]


@pytest.mark.parametrize("last", [{"id": 4, "filter": "a = 4"}, {"id": 1, "filter": "a = 4"}])
def test_good_subscriptions_are_added_whatever_stands_beside_them(tmp_path: Path, last: dict[str, object]) -> None:
    bad = [{"id": 2, "filter": "a ="}, {"id": 3}]
    index, refused = loaded(written(tmp_path, "s.jsonl", {"id": 1, "filter": "a = 1"}, *bad, last))
    again = last["id"] == 1  # an id that comes twice is refused by itself
    assert refused == ["MissingField", "FilterSyntaxError", *(["DuplicateId"] if again else [])]
    assert list(index) == ([1] if again else [1, 4])


def test_a_batch_is_halved_until_the_refused_event_stands_alone(tmp_path: Path) -> None:
    index, _ = loaded(written(tmp_path, "s.jsonl", {"id": 1, "filter": "a = 1"}))
    batch = FileBatch([{"a": 1}, {"a": "\ud800"}, {"a": 1}, {"a": 2}], [3, 4, 5, 6], "e.jsonl", [1, 2, 3, 4])
    found = list(match_events(index, batch))
    pairs = [row for part in found if isinstance(part, pa.Table) for row in part["event"].to_pylist()]
    (refused,) = (part for part in found if isinstance(part, InputError))
    assert pairs == [3, 5]
    assert (refused.place.line, refused.place.row, refused.kind) == (2, 4, "EventError")


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
