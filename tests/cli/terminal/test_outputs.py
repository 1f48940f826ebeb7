"""No output of a command destroys an input, and what cannot be written is named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import typer

from tests.cli.program import Program
from whimbrel.cli.terminal.outputs import check_outputs


@pytest.mark.parametrize(
    "arguments",
    [
        ("match", "-s", "subs.jsonl", "events.jsonl", "--rejects", "events.jsonl"),
        ("match", "-s", "subs.jsonl", "events.jsonl", "-o", "linked.jsonl"),
        ("lint", "subs.jsonl", "-o", "./subs.jsonl"),
        ("pipeline", "run", "-e", "events.jsonl", "-s", "subs.jsonl", "-o", "events.jsonl", "--overwrite"),
        ("pipeline", "compile", "-s", "subs.jsonl", "--index", "i", "--rejects", "subs.jsonl", "--overwrite"),
        ("schema", "infer", "events.jsonl", "-o", "events.jsonl"),
        ("schema", "check", "shop.toml", "--rejects", "shop.toml"),
    ],
)
def test_an_output_that_names_an_input_is_refused_before_anything_is_opened(
    program: Program, arguments: tuple[str, ...]
) -> None:
    program.write("shop.toml", "[attributes]\ncount = 'integer'\n")
    (program.folder / "linked.jsonl").symlink_to("events.jsonl")
    before = {path.name: path.read_bytes() for path in program.folder.iterdir()}
    assert "is not read or written otherwise" in program(*arguments, status=2).stderr.replace("\n", " ")
    assert {path.name: path.read_bytes() for path in program.folder.iterdir()} == before


def test_links_folders_and_two_outputs_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    for name in ("a", "in/b"):
        Path(name).write_text("x")
    os.link("a", "hard")
    for outputs, inputs in (
        ({"-o": "hard"}, ["a"]),
        ({"-o": "in"}, ["in/b"]),
        ({"-o": "new", "--rejects": Path("./new")}, []),
        ({"-o": "new/../a"}, ["a", None]),
        ({"-o": "no-such-folder/c"}, ["no-such-folder/c"]),
    ):
        with pytest.raises(typer.BadParameter):
            check_outputs(outputs, inputs)
    check_outputs({"-o": None, "--rejects": "/dev/null", "--more": "/dev/null"}, ["a", "-"])
    check_outputs({"-o": "new", "--rejects": "other"}, ["a", "in"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("option", ["--output", "--rejects"])
def test_a_full_disk_is_told_with_the_path(program: Program, option: str) -> None:
    program.write("e.jsonl", '{"price": 100}\nnothing\n')
    result = program("match", "-s", "subs.jsonl", "e.jsonl", option, "/dev/full", status=1)
    assert "whimbrel: /dev/full: " in result.stderr and "No space left on device" in result.stderr
