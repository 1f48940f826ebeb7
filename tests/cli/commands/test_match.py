"""`whimbrel match`: formats in, formats out, rows and ids."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import PAIRS
from tests.cli.program import Program

CSV_SUBSCRIPTIONS = (
    "id,filter\ntoys,\"category = 'Toy' AND price < 5\"\ndear,price >= 100\ntagged,tags CONTAINS 'new'\n"
)


def parquet_bytes(columns: dict[str, object]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def test_prints_pairs_as_json_lines_and_nothing_else(program: Program) -> None:
    result = program("match", "--subscriptions", "subs.jsonl", "events.jsonl")
    assert result.pairs == PAIRS
    assert result.stdout.splitlines()[0] == '{"event": 0, "subscription": "toys"}'
    assert result.stderr == ""


def test_rows_count_through_all_files(program: Program) -> None:
    result = program("match", "-s", "subs.jsonl", "events.jsonl", "events.jsonl")
    assert result.pairs == PAIRS + [(row + 3, id) for row, id in PAIRS]


@pytest.mark.parametrize("name", ["subs.csv", "subs.parquet", "-"])
def test_reads_subscriptions_of_every_format(program: Program, name: str) -> None:
    rows = program.read_lines("subs.jsonl")
    program.write("subs.csv", "\ufeff" + CSV_SUBSCRIPTIONS)
    columns = {key: [row[key] for row in rows] for key in ("id", "filter")}
    program.write("subs.parquet", parquet_bytes(columns | {"dialect": ["sql", None, "sql"]}))
    stdin = "".join(json.dumps(row) + "\n" for row in rows).encode() if name == "-" else b""
    assert program("match", "-s", name, "events.jsonl", stdin=stdin).pairs == PAIRS


def test_reads_events_of_csv_and_parquet(program: Program) -> None:
    columns = {"category": ["Toy", "Book", "Toy"], "price": [3, 120, 7], "tags": [None, ["new", "sale"], []]}
    program.write("events.parquet", parquet_bytes(columns))
    assert program("match", "-s", "subs.jsonl", "events.parquet").pairs == PAIRS
    program.write("events.csv", "category,price,tags\nToy,3,\nBook,120,new\nToy,7,old\n")
    assert program("match", "-s", "subs.jsonl", "events.csv").pairs == PAIRS


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_reads_events_from_a_pipe(program: Program, format: str) -> None:
    events = program.read_lines("events.jsonl")
    contents = {
        "jsonl": "".join(json.dumps(event) + "\n" for event in events).encode(),
        "csv": b"category,price,tags\nToy,3,\nBook,120,new\nToy,7,\n",
        "parquet": parquet_bytes({"category": ["Toy", "Book", "Toy"], "price": [3, 120, 7], "tags": ["", "new", ""]}),
    }
    result = program("match", "-s", "subs.jsonl", "-", "--from", format, stdin=contents[format])
    assert result.pairs == PAIRS


def test_types_a_csv_column_from_all_of_its_cells(program: Program) -> None:
    filters = {
        "number": "n = 7",
        "float": "f = 1",
        "boolean": "b",
        "zip": "zip = '00123'",
        "mixed": "m = '1'",
        "missing": "e IS MISSING",
        "empty": "e = ''",
        "exact": "big = 9007199254740993",
    }
    program.write_lines("s.jsonl", *({"id": id, "filter": text} for id, text in filters.items()))
    program.write(
        "e.csv",
        'n,f,b,zip,m,e,big\n7,1.0,true,00123,1,,9007199254740993\n8,2e3,FALSE,99999,x,"",9007199254740992\n',
    )
    result = program("match", "-s", "s.jsonl", "e.csv")
    assert result.pairs == sorted([(0, id) for id in filters if id != "empty"] + [(1, "empty")])


def test_csv_values_may_have_line_breaks_and_quotes(program: Program) -> None:
    program.write_lines("s.jsonl", {"id": 1, "filter": "text = 'two\nlines \"so\"'"})
    program.write("e.csv", 'text,x\n"two\nlines ""so""",1\nother,2\n')
    assert program("match", "-s", "s.jsonl", "e.csv").pairs == [(0, 1)]


def test_ids_of_csv_are_numbers_if_all_of_them_are(program: Program) -> None:
    program.write("n.csv", "filter,id\nprice = 3,12\nprice > 3,-4\n")
    assert program("match", "-s", "n.csv", "events.jsonl").pairs == [(0, 12), (1, -4), (2, -4)]
    program.write("s.csv", "id,filter\n12,price = 3\n013,price > 3\n")
    assert program("match", "-s", "s.csv", "events.jsonl").pairs == [(0, "12"), (1, "013"), (2, "013")]


def test_timestamps_names_the_attributes_that_are_timestamps(program: Program) -> None:
    program.write_lines("s.jsonl", {"id": 1, "filter": "t < TIMESTAMP '2026-01-01T00:00:00Z'"})
    program.write_lines("e.jsonl", {"t": "2025-12-31T23:00:00-02:00"}, {"t": "2025-12-31"})
    program.write("e.csv", "t\n2025-12-31T23:00:00-02:00\n2025-12-31\n")
    assert program("match", "-s", "s.jsonl", "e.jsonl").pairs == []
    assert program("match", "-s", "s.jsonl", "e.jsonl", "--timestamps", "u, t").pairs == [(1, 1)]
    assert program("match", "-s", "s.jsonl", "e.csv", "--timestamps", "t").pairs == [(1, 1)]


def test_writes_a_table_for_people(program: Program) -> None:
    result = program("match", "-s", "subs.jsonl", "events.jsonl", "--format", "table")
    assert [line.split() for line in result.stdout.splitlines()][:2] == [["event", "subscription"], ["0", "toys"]]


@pytest.mark.parametrize("ids", [["toys", "dear"], [1, 2]])
def test_writes_parquet(program: Program, ids: list[object]) -> None:
    program.write_lines(
        "s.jsonl", {"id": ids[0], "filter": "category = 'Toy'"}, {"id": ids[1], "filter": "price > 100"}
    )
    program("match", "-s", "s.jsonl", "events.jsonl", "--output", "pairs.parquet")
    table = pq.read_table(program.folder / "pairs.parquet")
    assert table.schema.types == [pa.int64(), pa.int64() if ids == [1, 2] else pa.string()]
    assert table.to_pydict() == {"event": [0, 1, 2], "subscription": [ids[0], ids[1], ids[0]]}
    piped = program("match", "-s", "s.jsonl", "events.jsonl", "--format", "parquet").raw
    assert pq.read_table(io.BytesIO(piped)).equals(table)


def test_writes_to_a_file_and_replaces_it_whole(program: Program) -> None:
    program.write("pairs.jsonl", "old")
    assert program("match", "-s", "subs.jsonl", "events.jsonl", "-o", "pairs.jsonl").stdout == ""
    assert sorted((pair["event"], pair["subscription"]) for pair in program.read_lines("pairs.jsonl")) == PAIRS
    assert sorted(path.name for path in program.folder.iterdir()) == ["events.jsonl", "pairs.jsonl", "subs.jsonl"]
    program("match", "-s", "subs.jsonl", "events.jsonl", "-o", "/dev/null")


def test_json_gives_a_summary_on_standard_error(program: Program) -> None:
    result = program("match", "-s", "subs.jsonl", "events.jsonl", "--json")
    assert result.pairs == PAIRS
    (summary,) = result.error_lines
    assert summary.pop("seconds") >= 0
    assert summary == {"subscriptions": 3, "events": 3, "pairs": 3, "rejected": {}}


def test_blank_lines_are_no_events(program: Program) -> None:
    program.write("e.jsonl", '\ufeff\n\n{"price": 100}\r\n  \n{"price": 100}')
    assert program("match", "-s", "subs.jsonl", "e.jsonl").pairs == [(0, "dear"), (1, "dear")]


def test_many_batches_keep_their_rows(program: Program) -> None:
    lines = [json.dumps({"price": row % 200, "note": "x" * 50}) for row in range(30_000)]
    program.write("e.jsonl", "\n".join(lines))
    expected = [(row, "dear") for row in range(30_000) if row % 200 >= 100]
    assert program("match", "-s", "subs.jsonl", "e.jsonl").pairs == expected
    program.write("e.csv", "price,note\n" + "".join(f"{row % 200},{'x' * 60}\n" for row in range(30_000)))
    assert program("match", "-s", "subs.jsonl", "e.csv").pairs == expected


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("events.jsonl",),
        ("-s", "subs.jsonl"),
        ("-s", "-", "-"),
        ("-s", "subs.jsonl", "events.jsonl", "--format", "xml"),
        ("-s", "subs.jsonl", "events.jsonl", "--on-error", "maybe"),
        ("-s", "subs.jsonl", "events.jsonl", "--output", "no/such/folder/x"),
        ("-s", "subs.jsonl", "events.jsonl", "--rejects", "no/such/folder/x"),
    ],
)
def test_wrong_usage_ends_with_status_2(program: Program, arguments: tuple[str, ...]) -> None:
    result = program("match", *arguments, status=2)
    assert result.stdout == ""
    assert result.stderr.startswith("Usage:")


def test_compressed_files_are_read_and_damaged_ones_told(program: Program) -> None:
    lines = b"".join(b'{"price": %d}\n' % price for price in range(50, 250))
    expected = [(row, "dear") for row in range(50, 200)]
    packed = gzip.compress(lines[:900]) + gzip.compress(lines[900:])
    program.write("e.jsonl.gz", packed)
    program.write("e.jsonl.zst", pa.compress(lines, codec="zstd", asbytes=True))
    program.write("e.csv.bz2", bz2.compress(b"price\n" + b"".join(b"%d\n" % price for price in range(50, 250))))
    for name in ("e.jsonl.gz", "e.jsonl.zst", "e.csv.bz2"):
        assert program("match", "-s", "subs.jsonl", name).pairs == expected
    assert program("match", "-s", "subs.jsonl", "-", stdin=packed).pairs == expected
    program.write("half.jsonl.gz", packed[: len(packed) - 20])
    result = program("match", "-s", "subs.jsonl", "half.jsonl.gz", "events.jsonl", "--json", status=1)
    assert result.error_lines[0]["error"] == "FileTruncated" and "gzip" in result.error_lines[0]["message"]
    program.write("e.xz", lzma.compress(lines))
    assert "but got one of xz" in program("match", "-s", "subs.jsonl", "e.xz", status=1).stderr


def test_filters_that_are_hardly_meant_are_told(program: Program) -> None:
    program.write_lines("s.jsonl", {"id": 1, "filter": 'category = "Toy"'}, {"id": 2, "filter": "price > 5"})
    result = program("match", "-s", "s.jsonl", "events.jsonl")
    assert result.pairs == [(1, 2), (2, 2)]
    assert "whimbrel: s.jsonl:1: 1: " in result.stderr and "did you mean 'Toy'?" in result.stderr
    assert program("match", "-s", "s.jsonl", "events.jsonl", "--json").error_lines[0]["note"].startswith("s.jsonl:1")


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("e.csv", "category;price\nToy;3\n", ["the header has semicolons", "no event has the attribute 'price'"]),
        ("e.csv", "category\tprice\nToy\t3\n", ["the header has tabs"]),
        ("e.csv", " category, price\nToy,3\n", ["'price', which filters mention; did you mean ' price'?"]),
        ("e.jsonl", '{"prize": 3}\n', ["'price', which filters mention; did you mean 'prize'?", "'tags'"]),
        ("e.parquet", parquet_bytes({"d": [{"prices": 3}], "tag": [["x"]]}), ["attribute 'tags'", "mean 'tag'?"]),
    ],
)
def test_attributes_that_no_event_has_are_told(program: Program, name: str, content: str, told: list[str]) -> None:
    result = program("match", "-s", "subs.jsonl", program.write(name, content))
    assert result.stdout == "" and all(words in result.stderr for words in told)


def test_attributes_that_some_events_have_are_not_told(program: Program) -> None:
    program.write_lines("s.jsonl", {"id": 1, "filter": "price > 5"}, {"id": 2, "filter": "rare = 1"})
    assert program("match", "-s", "s.jsonl", "events.jsonl").stderr == ""
    assert "rare" not in program("match", "-s", "s.jsonl", "-", stdin=b'{"x": 1}').stderr
