"""`whimbrel schema`: check, show, diff and infer; fetch and extend against a broker that runs."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from typer.testing import CliRunner

from tests.broker.processes import BrokerProcess
from tests.cli.program import Program
from whimbrel import Schema
from whimbrel.cli.main import app
from whimbrel.client import Client

SHOP = """
default_type = "sale"

[domains.size]
kind = "enumerated"
values = ["S", "M", "L"]
order = [["S", "M", "L"]]

[attributes]
category = "string"
price = "decimal"
tags = "string"
size = "size"

[types.sale]
category = "mandatory"
price = "mandatory"
tags = "optional multiple"

[types.shirt]
size = "mandatory"
price = "optional multiple"
"""
BASE = """
[attributes]
"data.price" = "decimal"
[types.bid]
"data.price" = "mandatory"
"""
MORE = """
[domains.colour]
kind = "enumerated"
values = ["red", "blue"]
[attributes]
"data.colour" = "colour"
[types.bid]
"data.colour" = "optional"
[types.sale]
"data.price" = "mandatory"
"""


def test_a_good_schema_with_good_events_and_subscriptions(program: Program) -> None:
    program.write("shop.toml", SHOP)
    assert program("schema", "check", "shop.toml").stdout == ""
    summary = program("schema", "check", "shop.toml", "events.jsonl", "-s", "subs.jsonl", "--json").error_lines[-1]
    assert summary == {"types": 2, "attributes": 4, "subscriptions": 3, "events": 3, "rejected": {}}


def test_check_tells_every_problem(program: Program) -> None:
    program.write("shop.toml", SHOP)
    program.write_lines("subs.jsonl", {"id": 1, "filter": "prise < 5"}, {"id": 2, "filter": "size < 'M'"}, {"id": 3})
    program.write_lines(
        "events.jsonl",
        {"category": "Toy", "price": 3},
        {"category": 5, "colour": "red"},
        {"event_type": "shirt", "size": "XL"},
    )
    result = program(
        "schema", "check", "shop.toml", "events.jsonl", "-s", "subs.jsonl", "--json", "--rejects", "bad.jsonl", status=1
    )
    rejected = [(line["rejected"], line["line"], line["error"]) for line in result.error_lines[:-1]]
    assert rejected == [
        ("subscription", 1, "FilterTypeError"),
        ("subscription", 3, "MissingField"),
        ("event", 2, "InvalidEvent"),
        ("event", 3, "InvalidEvent"),
    ]
    message = result.error_lines[2]["message"]
    assert "3 violations" in message
    assert all(part in message for part in ("at category", "at price", "R3", "at colour"))
    assert program.read_lines("bad.jsonl")[0]["input"] == "prise < 5"
    text = program("schema", "check", "shop.toml", "-s", "subs.jsonl", status=1).stderr
    assert "did you mean 'price'?" in text
    assert "\n  ^\n" in text
    stopped = program("schema", "check", "shop.toml", "events.jsonl", "--on-error", "stop", "--json", status=1)
    assert stopped.error_lines[-1]["rejected"] == {"events": 1}


def test_bad_schemas(program: Program) -> None:
    program.write("bad.toml", '[attributes]\na = "flaot"\nb = "strin"\n')
    text = program("schema", "check", "bad.toml", status=1).stderr
    assert "2 problems" in text
    assert "did you mean 'float'? - at attributes.a" in text
    program.write("no.toml", "=")
    assert "Expected a schema in TOML" in program("schema", "show", "no.toml", status=1).stderr
    assert program("schema", "show", "missing.toml", status=1).stderr == (
        "whimbrel: missing.toml: Expected a file or folder that can be used, but got: No such file or directory\n"
    )
    error = program("schema", "diff", "bad.toml", "bad.toml", "--json", status=1).error_lines[-1]
    assert error["error"] == "InvalidSchema"


def test_show(program: Program) -> None:
    program.write("shop.toml", SHOP)
    shown = program("schema", "show", "shop.toml").stdout
    assert Schema.from_document(tomllib.loads(shown)) == Schema.load(program.folder / "shop.toml")
    assert json.loads(program("schema", "show", "shop.toml", "--json").stdout)["attributes"]["size"] == "size"
    view = program("schema", "show", "shop.toml", "--view", "sale, shirt").stdout.splitlines()
    assert view[1].split() == ["price", "mandatory", "multiple", "decimal"]
    assert program("schema", "show", "shop.toml", "--view", "sale", "--json").lines == [
        {"category": "mandatory", "price": "mandatory", "tags": "optional multiple"}
    ]
    assert "did you mean 'sale'" in program("schema", "show", "shop.toml", "--view", "sales", status=1).stderr


def test_diff_says_whether_it_is_an_extension(program: Program) -> None:
    program.write("old.toml", SHOP)
    program.write("new.toml", SHOP + 'tags = "optional"\n[types.gift]\nprice = "mandatory"\n')
    assert program("schema", "diff", "old.toml", "new.toml").stdout.splitlines() == [
        "+ types.shirt.tags: optional",
        "+ types.gift: price mandatory",
    ]
    back = program("schema", "diff", "new.toml", "old.toml", status=1)
    assert "- types.gift: price mandatory  (not an extension)" in back.stdout
    assert "old.toml does not extend new.toml" in back.stderr
    result = program("schema", "diff", "old.toml", "new.toml", "--json")
    assert [line["extension"] for line in result.lines] == [True, True]
    assert result.error_lines == [{"changes": 2, "extension": True}]


def test_infer(program: Program) -> None:
    inferred = tomllib.loads(program("schema", "infer", "events.jsonl").stdout)
    assert inferred["types"] == {"event": {"category": "mandatory", "price": "mandatory", "tags": "optional multiple"}}
    assert tomllib.loads(program("schema", "infer", "events.jsonl", "-o", "-").stdout) == inferred
    program("schema", "infer", "events.jsonl", "-o", "s.json", "--default-type", "sale", "--values", "2")
    schema = Schema.load(program.folder / "s.json")
    assert (schema.default_type, str(schema.attributes["price"])) == ("sale", "integer")
    assert program("schema", "check", "s.json", "events.jsonl").stdout == ""
    program.write("e.csv", "a,b\n1,x\n2,y\n")
    assert tomllib.loads(program("schema", "infer", "e.csv", "events.jsonl").stdout)["attributes"]["a"] == "integer"
    program.write("mixed.jsonl", '{"a": 1}\n{"a": "x"}\n')
    assert "number and string - at a" in program("schema", "infer", "mixed.jsonl", status=1).stderr
    assert tomllib.loads(program("schema", "infer", "mixed.jsonl", "--limit", "1").stdout)["attributes"] == {
        "a": "integer"
    }
    program.write("odd.jsonl", '{"a": 1}\n[]\n')
    odd = program("schema", "infer", "odd.jsonl", status=1)
    assert "Expected a JSON object, but got an array" in odd.stderr
    assert tomllib.loads(odd.stdout)["attributes"] == {"a": "integer"}


def test_match_and_explain_with_a_schema(program: Program) -> None:
    program.write("shop.toml", SHOP)
    program.write_lines("subs.jsonl", {"id": 1, "filter": "size < 'L'"}, {"id": 2, "filter": "sise = 'L'"})
    program.write_lines(
        "events.jsonl",
        {"event_type": "shirt", "size": "M"},
        {"event_type": "shirt", "size": "XL", "colour": "red"},
        {"event_type": "shirt", "size": "L"},
    )
    result = program("match", "-s", "subs.jsonl", "events.jsonl", "--schema", "shop.toml", "--json", status=1)
    assert result.pairs == [(0, 1)]
    assert [(line["rejected"], line["line"]) for line in result.error_lines[:-1]] == [("subscription", 2), ("event", 2)]
    assert result.error_lines[1]["message"].startswith("Expected a valid event, but got 2 violations")
    event = '{"event_type": "shirt", "size": "S"}'
    text = program("explain", event, "--filter", "size > 'S'", "--schema", "shop.toml").stdout
    assert text.splitlines() == ["size != 'S'", "no match", "  - size != 'S'  [size: 'S']"]
    assert "matches 1 of 1" in program("explain", event, "-s", "subs.jsonl", "--schema", "shop.toml", status=1).stdout
    assert (
        "R2"
        in program(
            "explain", '{"event_type": "shirt"}', "--filter", "size > 'S'", "--schema", "shop.toml", status=1
        ).stderr
    )


def test_a_schema_is_extended_by_a_file_and_fetched(tmp_path: Path) -> None:
    base, more, whole = tmp_path / "base.toml", tmp_path / "more.toml", tmp_path / "whole.toml"
    base.write_text(BASE)
    more.write_text(MORE)
    run = CliRunner().invoke
    with BrokerProcess(tmp_path / "data", schema=str(base)) as process, Client(process.url) as client:
        assert "4 extensions" in run(app, ["schema", "extend", str(more), "--url", process.url]).output
        assert "0 extensions" in run(app, ["schema", "extend", str(more), "--url", process.url]).output
        whole.write_text(run(app, ["schema", "fetch", "--url", process.url]).output)
        mandatory = [one["name"] for one in client.schema_view(["bid", "sale"])["attributes"] if one["mandatory"]]
        assert mandatory == ["data.price"]
        (result,) = client.publish(
            [{"specversion": "1.0", "id": "1", "source": "s", "type": "sale", "data": {"price": 1}}]
        )
        assert result.offset is not None
    assert Schema.load(whole).types["bid"].keys() >= {"data.price", "data.colour"}
