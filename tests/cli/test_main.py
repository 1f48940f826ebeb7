"""The other commands, what help costs, and how the program ends."""

from __future__ import annotations

import random
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from tests.cli.program import Program
from tests.lab import web_shop
from whimbrel import Index
from whimbrel.lab.web_shop import TIMESTAMPS, sample_events, sample_subscriptions


def test_version(program: Program) -> None:
    assert program("version").stdout.splitlines()[0] == f"whimbrel {metadata.version('whimbrel')}"
    assert program("--version").stdout == program("version").stdout
    assert program("version", "--json").lines[0]["whimbrel"] == metadata.version("whimbrel")


def test_help_names_every_command_and_loads_nothing_heavy() -> None:
    program = """
import sys
from whimbrel.cli.main import main
try:
    main()
except SystemExit:
    print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)
"""
    command = [sys.executable, "-c", program, "--help"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    for name in ("match", "explain", "lint", "demo", "version", "bench"):
        assert f"\n  {name}" in done.stdout
    assert not {"numba", "pyarrow", "pyspark", "numpy"} & set(done.stderr.split())


def test_a_command_loads_no_other_and_matching_no_pandas(tmp_path: Path) -> None:
    program = """
import sys
from whimbrel.cli.main import main
try:
    main()
except SystemExit:
    print(*sys.modules)
"""
    (tmp_path / "s.jsonl").write_text('{"id": 1, "filter": "a = 1"}\n')
    (tmp_path / "e.jsonl").write_text('{"a": 1}\n')
    command = [sys.executable, "-c", program, "match", "-s", "s.jsonl", "-o", "pairs.parquet", "e.jsonl"]
    done = subprocess.run(command, capture_output=True, check=True, text=True, cwd=tmp_path)
    modules = set(done.stdout.split())
    assert "whimbrel.cli.commands.match" in modules
    assert not {"whimbrel.cli.broker.serve", "whimbrel.cli.bench.group", "pandas", "asyncio", "rich"} & modules


def test_no_command_shows_help_and_an_unknown_one_is_wrong_usage(program: Program) -> None:
    assert "Commands:" in program(status=2).stdout + program(status=2).stderr
    assert "No such command" in program("fly", status=2).stderr


def test_demo_shows_a_summary_and_ends(program: Program) -> None:
    text = program("demo").stdout
    for part in ("Summary", "Most matched subscriptions", "Why it matches", "misses by a little", "1,200"):
        assert part in text
    (summary,) = program("demo", "--json").lines
    assert (summary["events"], summary["subscriptions"], summary["pairs"]) == (1_200, 118, 4_954)


def test_the_bundled_sample_matches_as_the_reference_says(program: Program) -> None:
    program("demo", "--write", "sample")
    arguments = ("match", "-s", "sample/subscriptions.jsonl", "sample/events.jsonl", "--timestamps", "time")
    index = Index(timestamps=TIMESTAMPS)
    index.add_many(sample_subscriptions())
    filters = {id: index[id].filter for id in index}
    expected = [
        (row, id)
        for row, event in enumerate(sample_events())
        for id, filter in filters.items()
        if filter.matches(event, TIMESTAMPS)
    ]
    assert program(*arguments).pairs == sorted(expected)


def test_the_bundled_sample_is_what_its_maker_writes(tmp_path: Path) -> None:
    web_shop.write(tmp_path)
    for name in ("events.jsonl", "subscriptions.jsonl"):
        assert (tmp_path / name).read_bytes() == (web_shop.SAMPLES / name).read_bytes()
    assert len(list(web_shop.events(random.Random(0)))) == web_shop.EVENTS


def test_bench_language_measures(program: Program) -> None:
    result = program("bench", "language", "--count", "1000", "--repeats", "1", "--json")
    assert '"figures"' in result.stdout


def test_a_reader_that_has_had_enough_ends_the_program_quietly(program: Program) -> None:
    program.write("e.jsonl", '{"price": 100}\n' * 20_000)
    command = f"{sys.executable} -m whimbrel.cli.main match -s subs.jsonl e.jsonl | head -n 1"
    done = subprocess.run(command, shell=True, cwd=program.folder, capture_output=True, check=True, text=True)
    assert done.stdout == '{"event": 0, "subscription": "dear"}\n'
    assert done.stderr == ""


def test_a_closed_output_ends_no_command(program: Program) -> None:
    for command, closed in (("lab list", ">&-"), ("lint subs.jsonl", ">&-"), ("lint subs.jsonl", "2>&-")):
        line = f"{sys.executable} -m whimbrel.cli.main {command} {closed}"
        done = subprocess.run(line, shell=True, cwd=program.folder, capture_output=True, check=True, text=True)
        assert "Traceback" not in done.stderr


def test_a_full_disk_is_told(program: Program) -> None:
    line = f"{sys.executable} -m whimbrel.cli.main lab list > /dev/full"
    done = subprocess.run(line, shell=True, cwd=program.folder, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (1, "whimbrel: No space left on device\n")


def test_lines_of_a_pipe_are_answered_as_they_come(program: Program) -> None:
    command = [sys.executable, "-m", "whimbrel.cli.main", "match", "-s", "subs.jsonl", "-"]
    with subprocess.Popen(
        command, cwd=program.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None and running.stdout is not None
        for row in range(3):
            running.stdin.write('{"price": 100}\n')
            running.stdin.flush()
            assert running.stdout.readline() == f'{{"event": {row}, "subscription": "dear"}}\n'
        running.stdin.close()
    assert running.returncode == 0
