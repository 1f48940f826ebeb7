"""`whimbrel pipeline` in the session of the tests: what it reads, writes, refuses, and how it ends."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from whimbrel import Filter
from whimbrel.cli.main import main
from whimbrel.lab.web_shop import TIMESTAMPS, sample_events, sample_subscriptions
from whimbrel.log import LogWriter

pytestmark = pytest.mark.spark

SUBSCRIPTIONS = {
    "toys": "category = 'Toy' AND price < 5",
    "dear": "price >= 100",
    "any": "category IS NOT NULL",
    "code": "code = '007'",
    "on": "active",
}
EVENTS: list[dict[str, Any]] = [
    {"event_id": 1, "category": "Toy", "price": 3.0, "code": "007", "active": True},
    {"event_id": 2, "category": "Book", "price": 120.5, "code": "7", "active": False},
    {"event_id": 3, "category": None, "price": 4.0, "code": None, "active": None},
    {"event_id": 3, "category": "Toy", "price": None, "code": "x", "active": True},
]


def expected(events: list[dict[str, Any]] = EVENTS) -> list[tuple[Any, str]]:
    filters = {id: Filter.parse(text) for id, text in SUBSCRIPTIONS.items()}
    present = [{name: value for name, value in event.items() if value is not None} for event in events]
    return sorted(
        (event["event_id"], id) for event in present for id, filter in filters.items() if filter.matches(event)
    )


@dataclass(frozen=True)
class Result:
    stdout: str
    stderr: str

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.stdout.splitlines()[-1])
        return found


class Command(Protocol):
    def __call__(self, *arguments: object, status: int = 0) -> Result: ...


@pytest.fixture
def whimbrel(spark: object, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """The program itself, which finds the session of the tests running and uses it."""

    def run(*arguments: object, status: int = 0) -> Result:
        monkeypatch.setattr(sys, "argv", ["whimbrel", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        result = Result(*capfd.readouterr())
        assert ended.value.code == status, result
        assert "Traceback" not in result.stderr and "\tat org." not in result.stderr, result.stderr
        return result

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with subs.jsonl in it."""
    monkeypatch.chdir(tmp_path)
    write_lines(tmp_path / "subs.jsonl", [{"id": id, "filter": text} for id, text in SUBSCRIPTIONS.items()])
    return tmp_path


def write_lines(path: Path, items: list[Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    lines = [{name: value for name, value in item.items() if value is not None} for item in items]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_events(path: Path, format: str) -> None:
    table = pa.Table.from_pylist(EVENTS)
    if format == "json":
        write_lines(path, EVENTS)
    elif format == "csv":
        pa.csv.write_csv(table, path)
    elif format == "orc":
        pa.orc.write_table(table, path)
    elif format == "whimbrel":
        with LogWriter(path) as log:
            for event in EVENTS:
                log.append(json.dumps({name: value for name, value in event.items() if value is not None}).encode())
    else:
        pq.write_table(table, path)


def pairs_of(path: Path, key: str = "event_id") -> list[tuple[Any, Any]]:
    rows = pq.read_table(path).to_pylist()
    return sorted((row[key], row["subscription"]) for row in rows)


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(".") or path.suffix == ".tmp")


@pytest.mark.parametrize("format", ["parquet", "json", "csv", "orc"])
def test_every_format_gives_the_pairs_of_the_reference(whimbrel: Command, folder: Path, format: str) -> None:
    write_events(folder / f"events.{format}", format)
    result = whimbrel("pipeline", "run", "-e", f"events.{format}", "-s", "subs.jsonl", "-o", "out", "--json")
    pairs = expected()
    if format == "json":  # keys of JSON lines are text
        pairs = [(str(key), id) for key, id in pairs]
    assert pairs_of(folder / "out") == pairs
    assert (result.summary["events"], result.summary["pairs"]) == (len(EVENTS), len(pairs))
    assert (result.summary["rejected"], result.stderr) == ({}, "")
    assert leftovers(folder) == []


def test_the_bundled_sample_as_json_lines(whimbrel: Command, folder: Path) -> None:
    events = [{"event_id": f"e{number}", **event} for number, event in enumerate(sample_events()[:300])]
    write_lines(folder / "events" / "day.jsonl", events)
    subscriptions = sample_subscriptions()
    write_lines(folder / "subs.jsonl", [{"id": id, "filter": text} for id, text in subscriptions])
    whimbrel("pipeline", "run", "-e", "events", "-s", "subs.jsonl", "-o", "out", "--timestamps", "time")
    filters = [(id, Filter.parse(text)) for id, text in subscriptions]
    reference = [
        (event["event_id"], id) for event in events for id, filter in filters if filter.matches(event, TIMESTAMPS)
    ]
    assert pairs_of(folder / "out") == sorted(reference)


def test_what_is_refused_is_said_counted_and_written_and_nothing_is_lost(whimbrel: Command, folder: Path) -> None:
    bad = ['{"id": "half", "filter": "price <"}', '{"filter": "a = 1"}', '{"id": 7, "filter": "a = 1"}', "no json"]
    with (folder / "subs.jsonl").open("a") as file:
        file.write("\n".join([*bad, ""]))
    lines = [json.dumps({"event_id": n, "price": 200}) for n in range(5)]
    (folder / "events.jsonl").write_text("\n".join([*lines, "[1]", '{"event_id": 9, ', "", lines[0]]))
    arguments = shlex.split("-e events.jsonl -s subs.jsonl -o out --rejects bad.jsonl --dead-letters dead")
    result = whimbrel("pipeline", "run", *arguments, status=1)
    for text in ("subs.jsonl: subscription half: Expected an attribute or a literal", "  price <\n         ^"):
        assert text in result.stderr
    for row in ("rejected subscriptions │ 4", "dead letters │ 2", "pairs │ 6", "events │ 8"):
        name, _, value = row.partition(" │ ")
        assert any(name in line and line.rstrip(" │").endswith(f" {value}") for line in result.stdout.splitlines()), row
    parts = [part.read_text() for part in (folder / "bad.jsonl").glob("part-*")]
    rejects = [json.loads(line) for text in parts for line in text.splitlines()]
    assert sorted(str(row.get("id")) for row in rejects) == ["7", "None", "None", "half"]
    assert {row["text"] for row in rejects} == {"price <", *bad[1:]}
    dead = pq.read_table(folder / "dead").to_pylist()
    assert sorted(row["event"] for row in dead) == ["[1]", '{"event_id": 9, ']
    assert pairs_of(folder / "out") == [("0", "dear"), *((str(n), "dear") for n in range(5))]


def test_a_schema_makes_types_and_dead_letters(whimbrel: Command, folder: Path) -> None:
    lines = [{"event_id": 1, "price": 100}, {"event_id": 2, "price": "100"}, {"event_id": 3, "price": 200, "more": 1}]
    write_lines(folder / "events.jsonl", lines)
    (folder / "schema.ddl").write_text("event_id BIGINT NOT NULL,\n price DOUBLE")
    arguments = shlex.split("-e events.jsonl -s subs.jsonl -o out --schema schema.ddl --dead-letters dead")
    result = whimbrel("pipeline", "run", *arguments, "--form", "lists", "--json", status=1)
    assert result.summary["rejected"] == {"events": 1}
    assert pq.read_table(folder / "out").sort_by("event_id").to_pylist() == [
        {"event_id": 1, "subscriptions": ["dear"]},
        {"event_id": 3, "subscriptions": ["dear"]},
    ]
    (row,) = pq.read_table(folder / "dead").to_pylist()
    assert [(reason["attribute"], reason["kind"]) for reason in row["reasons"]] == [("price", "type")]
    wrong = whimbrel("pipeline", "run", *arguments[:6], "--overwrite", "--schema", "price MONEY", status=2)
    assert "--schema" in wrong.stderr


@pytest.mark.parametrize("options", ["--key value", "--key value --schema 'value BIGINT, price DOUBLE'"])
def test_json_lines_may_have_a_field_named_value(whimbrel: Command, folder: Path, options: str) -> None:
    (folder / "events.jsonl").write_text('{"value": 7, "price": 120}\n')
    whimbrel("pipeline", "run", *shlex.split(f"-e events.jsonl -s subs.jsonl -o out.jsonl {options}"))
    (line,) = [line for part in (folder / "out.jsonl").glob("part-*") for line in part.read_text().splitlines()]
    assert (int(json.loads(line)["value"]), json.loads(line)["subscription"]) == (7, "dear")


def test_a_key_of_json_lines_may_have_a_quote_in_its_name(whimbrel: Command, folder: Path) -> None:
    (folder / "events.jsonl").write_text('{"it\'s": "k", "price": 120}\n')
    whimbrel("pipeline", "run", *shlex.split("-e events.jsonl -s subs.jsonl -o out --key"), "it's")
    assert pairs_of(folder / "out", "it's") == [("k", "dear")]


def test_a_stream_goes_on_where_it_was_with_new_subscriptions_and_then_old_versions_go(
    whimbrel: Command, folder: Path
) -> None:
    arguments = shlex.split("pipeline run --stream --once -e in -s subs.jsonl -o out --index index")
    write_lines(folder / "in" / "1.jsonl", EVENTS[:2])
    first = whimbrel(*arguments, "--json")
    batch, summary = (json.loads(line) for line in first.stdout.splitlines())
    assert (batch["batch"], batch["events"], batch["files_waiting"]) == (0, 2, 0)
    assert (summary["batches"], summary["events"], summary["version"]) == (1, 2, 1)
    write_lines(folder / "in" / "2.jsonl", EVENTS[2:])
    with (folder / "subs.jsonl").open("a") as file:
        file.write('{"id": "late", "filter": "price > 0 OR code = \'x\'"}\n')
    second = whimbrel(*arguments)
    assert "micro-batches" in second.stdout
    late = [("3", "late"), ("3", "late")]
    pairs = [(str(key), id) for key, id in expected()]
    assert pairs_of(folder / "out") == sorted([*pairs, *late])
    other = whimbrel(*arguments[:-1], "other", status=1)
    assert (
        f"{folder}/out.checkpoint/whimbrel.json" in f"{folder}/{other.stderr[10:]}" and "its index is" in other.stderr
    )
    explained = whimbrel("pipeline", "explain", "-e", "in", "--index", "index")
    assert "replicate" in explained.stdout and "version 2" in explained.stdout
    collected = whimbrel("pipeline", "gc", "--index", "index", "--batches", "1")
    assert collected.stdout.startswith("deleted version 1, kept version 2\nstream ")


def test_a_log_is_read_by_offset_at_rest_and_as_a_stream(whimbrel: Command, folder: Path) -> None:
    write_events(folder / "log", "whimbrel")
    pairs = expected([{**event, "event_id": offset} for offset, event in enumerate(EVENTS)])
    whimbrel("pipeline", "run", "-e", "log", "-s", "subs.jsonl", "-o", "batch")
    assert pairs_of(folder / "batch", "offset") == pairs
    result = whimbrel("pipeline", "run", "--stream", "--once", "-e", "log", "-s", "subs.jsonl", "-o", "s", "--json")
    assert pairs_of(folder / "s", "offset") == pairs
    assert json.loads(result.stdout.splitlines()[0])["events_waiting"] == 0


def test_compile_says_what_changed_and_a_run_takes_the_index(whimbrel: Command, folder: Path) -> None:
    write_events(folder / "events.parquet", "parquet")
    compile = ("pipeline", "compile", "-s", "subs.jsonl", "--index", "index", "--events", "events.parquet", "--json")
    assert whimbrel(*compile).summary["added"] == len(SUBSCRIPTIONS)
    write_lines(folder / "subs.jsonl", [{"id": "dear", "filter": "price >= 4"}, {"id": "any", "filter": "price <"}])
    result = whimbrel(*compile, status=1)
    changed = {name: result.summary[name] for name in ("version", "subscriptions", "added", "replaced", "removed")}
    assert changed == {"version": 2, "subscriptions": 1, "added": 0, "replaced": 1, "removed": 4}
    whimbrel("pipeline", "run", "-e", "events.parquet", "-s", "index", "-o", "out")
    assert pairs_of(folder / "out") == [(2, "dear"), (3, "dear")]


def damaged(path: Path) -> None:
    pq.write_table(pa.table({"event_id": list(range(5_000)), "price": list(range(5_000))}), path)
    content = bytearray(path.read_bytes())
    content[100:3_000] = b"\xff" * 2_900
    path.write_bytes(content)


def test_bad_input_is_one_sentence_that_names_the_file_and_leaves_nothing_behind(
    whimbrel: Command, folder: Path
) -> None:
    def fails(*arguments: str, says: tuple[str, ...]) -> None:
        result = whimbrel("pipeline", "run", "-s", "subs.jsonl", "-o", "out", *arguments, status=1)
        (line,) = result.stderr.splitlines()
        assert all(text in line for text in ("whimbrel: ", *says)), line
        assert not (folder / "out").exists()
        assert leftovers(folder) == []

    write_events(folder / "events.parquet", "parquet")
    (folder / "data").mkdir()
    damaged(folder / "data" / "damaged.parquet")
    fails("-e", "data", says=("data/damaged.parquet",))
    (folder / "text.parquet").write_text("no parquet")
    fails("-e", "text.parquet", says=("text.parquet",))
    pq.write_table(pa.table({"price": [1], "name": ["x"]}), folder / "nokey.parquet")
    fails("-e", "nokey.parquet", says=("event_id or id", "price, name"))
    write_lines(folder / "nokey.jsonl", [{"price": 1}])
    fails("-e", "nokey.jsonl", says=("event_id or id", "price"))
    (folder / "foreign" / "versions").mkdir(parents=True)
    fails("-e", "events.parquet", "-s", "foreign", says=("foreign", "compiled index"))
    (folder / "foreign" / "versions" / "0000000001.json").write_text("{}")
    fails("-e", "events.parquet", "-s", "foreign", says=("foreign/versions/0000000001.json",))
    pq.write_table(pa.table({"id": [1.5], "filter": ["a = 1"]}), folder / "ids.parquet")
    fails("-e", "events.parquet", "-s", "ids.parquet", says=("column id", "double"))
    (folder / "c").mkdir()
    (folder / "c" / "metadata").write_text("{}")
    fails("-e", "events.parquet", "--stream", "--checkpoint", "c", says=("c: Expected a checkpoint of this pipeline",))
