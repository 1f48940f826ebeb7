"""The program in a folder with two good files: subs.jsonl and events.jsonl."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    program = Program(tmp_path)
    program.write_lines(
        "subs.jsonl",
        {"id": "toys", "filter": "category = 'Toy' AND price < 5"},
        {"id": "dear", "filter": "price >= 100"},
        {"id": "tagged", "filter": "tags CONTAINS 'new'"},
    )
    program.write_lines(
        "events.jsonl",
        {"category": "Toy", "price": 3},
        {"category": "Book", "price": 120, "tags": ["new", "sale"]},
        {"category": "Toy", "price": 7},
    )
    return program


PAIRS = [(0, "toys"), (1, "dear"), (1, "tagged")]
