"""`whimbrel overlay` with options and files that are wrong."""

from __future__ import annotations

import pytest

from tests.cli.program import Program


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"filter": "\xff"}', "Expected text in UTF-8"),
        (b"3", "Expected a JSON object"),
        (b'{"subscription": "a", "filter": "a <", "where": "r0"}', "Expected an attribute or a literal"),
        (
            b'{"subscription": "a", "filter": "a = 1", "where": []}',
            "Expected subscription, filter and a router as where",
        ),
        (b'{"id": 1, "filter": "' + "é".encode() * 80 + b'"}', "Expected subscription, filter and a router as where"),
    ],
)
def test_a_wrong_line_is_named(program: Program, line: bytes, problem: str) -> None:
    program.write("wrong.jsonl", b'{"event": 0}\n' + line + b"\n")
    done = program("overlay", "trace", "{}", "--routers", "2", "--subscriptions", "wrong.jsonl", status=1)
    assert f"whimbrel: wrong.jsonl:2: {problem}" in done.stderr


def test_one_router_has_no_link_to_cut(program: Program) -> None:
    done = program("overlay", "simulate", "--routers", "1", "--cuts", "1", "--events", "5", "--filters", "5", status=2)
    assert "--cuts: Expected at least two routers" in done.stderr.replace("\n", " ")


@pytest.mark.parametrize("option", ["--interval", "--trigger"])
def test_a_span_that_is_none_is_wrong_usage(program: Program, option: str) -> None:
    done = program("overlay", "simulate", option, "soon", status=2)
    assert f"Invalid value for {option}: Expected a span of time" in done.stderr
